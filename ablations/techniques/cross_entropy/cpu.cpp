// By the loop over rows of cpu/kernels.h.
#include "ablations/techniques/cpu/kernels.h"
#include "ablations/techniques/cpu/thread_sums.h"
#include "ablations/techniques/cross_entropy/head_loss.h"

#include <ATen/Parallel.h>

namespace model {

using at::Tensor;

namespace {

void loss(const Tensor& logits, const Tensor& targets, const Tensor& losses, int64_t vocabulary, float scale,
          bool differentiated, bool /*fp8*/) {
  const cpu::Loss call{.type = number_of(logits),
                       .logits = logits.mutable_data_ptr(),
                       .targets = targets.const_data_ptr<int64_t>(),
                       .loss = losses.mutable_data_ptr<float>(),
                       .columns = vocabulary,
                       .stride = logits.size(1),
                       .scale = scale,
                       .write_gradient = differentiated};
  at::parallel_for(0, logits.size(0), 1, [&](int64_t first, int64_t last) { cpu::kernels().loss(call, first, last); });
}

Tensor mean(const Tensor& losses) { return losses.mean(); }

void scale(const Tensor& gradient, const Tensor& factor) {
  Tensor scaled = gradient;
  if (const auto number = factor.item<double>(); number != 1) scaled.mul_(number);
}

void check_factor(const Tensor& found, double expected) {
  TORCH_CHECK(found.item<double>() == expected, "FusedHeadLoss: the loss was multiplied by ", found.item<double>(),
              ", but its gradient was made for ", expected);
}

}  // namespace

const HeadLossKernels head_loss_on_cpu{loss, mean, scale, check_factor};

}  // namespace model
