// By the loops of cpu/kernels.h, which has the formulas.
#include "ablations/techniques/cpu/kernels.h"
#include "ablations/techniques/cpu/thread_sums.h"
#include "ablations/techniques/norm/norm.h"

#include <ATen/Parallel.h>

namespace model {

using at::Tensor;

namespace {

void forward(const AddNormKernels::Forward& a) {
  const int64_t rows = a.x.size(0);
  const cpu::AddNorm call{.stream = number_of(a.x),
                          .branch = a.y.defined() ? number_of(a.y) : number_of(a.x),
                          .out = number_of(a.normalized),
                          .x = a.x.const_data_ptr(),
                          .y = a.y.defined() ? a.y.const_data_ptr() : nullptr,
                          .sum = a.y.defined() ? a.sum.mutable_data_ptr() : nullptr,
                          .normalized = a.normalized.mutable_data_ptr(),
                          .mean = a.mean.mutable_data_ptr<float>(),
                          .rstd = a.rstd.mutable_data_ptr<float>(),
                          .weight = a.weight.const_data_ptr<float>(),
                          .bias = a.bias.const_data_ptr<float>(),
                          .C = a.x.size(1),
                          .eps = static_cast<float>(a.eps)};
  at::parallel_for(0, rows, rows_at_once,
                   [&](int64_t begin, int64_t end) { cpu::kernels().add_norm(call, begin, end); });
}

void backward(const AddNormKernels::Backward& a) {
  const int64_t rows = a.sum.size(0), C = a.sum.size(1);
  const cpu::AddNormBackward call{.stream = number_of(a.sum),
                                  .branch = number_of(a.dy.defined() ? a.dy : a.sum),
                                  .out = number_of(a.d_normalized),
                                  .sum = a.sum.const_data_ptr(),
                                  .d_sum = a.d_sum.defined() ? a.d_sum.const_data_ptr() : nullptr,
                                  .d_normalized = a.d_normalized.const_data_ptr(),
                                  .dx = a.dx.mutable_data_ptr(),
                                  .dy = a.dy.defined() ? a.dy.mutable_data_ptr() : nullptr,
                                  .mean = a.mean.const_data_ptr<float>(),
                                  .rstd = a.rstd.const_data_ptr<float>(),
                                  .weight = a.weight.const_data_ptr<float>(),
                                  .C = C};
  const ThreadSums sums(2 * C, a.weight);
  at::parallel_for(0, rows, rows_at_once, [&](int64_t begin, int64_t end) {
    float* own = sums.of_this_thread();
    cpu::kernels().add_norm_backward(call, begin, end, own, own + C);
  });
  const Tensor of_weight_and_bias = sums.total().view({2, C});
  put(a.d_weight, of_weight_and_bias[0]);
  put(a.d_bias, of_weight_and_bias[1]);
}

}  // namespace

const AddNormKernels add_norm_on_cpu{forward, backward};

}  // namespace model
