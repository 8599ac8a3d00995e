// Head and cross-entropy as one operation, some rows at a time: the logits of a chunk of rows become their own gradient
// in place, and the products that need them are made before the next chunk. So the matrix (B T, V) never exists as a
// whole, and what is kept for the backward pass is its result: the gradients of x and of the embedding.
#include "model/cpu/kernels.h"
#include "model/fused.h"
#include "model/ops.h"
#include "model/products.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace model {

using at::Tensor;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FusedHeadLoss : torch::autograd::Function<FusedHeadLoss> {
  // x (N, C) of the products' type, wte (V, C) float32, targets (N) int64 -> 0-dim float32
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& wte, const Tensor& targets,
                        int64_t vocabulary, Products products, bool differentiated) {
    const int64_t N = x.size(0), V = wte.size(0);
    const Tensor weight = wte.to(x.scalar_type());
    const Tensor losses = at::empty({N}, x.options().dtype(at::kFloat));
    const Tensor dx = differentiated ? at::empty_like(x) : Tensor();
    Tensor d_wte;
    const int64_t rows = std::clamp<int64_t>(head_loss_chunk_bytes / (V * x.element_size()), 1, N);
    for (int64_t begin = 0; begin < N; begin += rows) {
      const int64_t n = std::min(rows, N - begin);
      const Tensor x_rows = x.narrow(0, begin, n);
      const Tensor logits = product(products, x_rows, weight.t());  // (n, V)
      const cpu::Loss call{.type = number_of(logits),
                           .logits = logits.mutable_data_ptr(),
                           .targets = targets.const_data_ptr<int64_t>() + begin,
                           .loss = losses.mutable_data_ptr<float>() + begin,
                           .columns = vocabulary,
                           .stride = V,
                           .scale = 1.0F / static_cast<float>(N),
                           .write_gradient = differentiated};
      at::parallel_for(0, n, 1, [&](int64_t first, int64_t last) { cpu::kernels().loss(call, first, last); });
      if (!differentiated) continue;
      product_into(products, dx.narrow(0, begin, n), logits, weight, /*accumulate=*/false);
      if (!d_wte.defined()) {
        d_wte = product(products, logits.t(), x_rows).to(at::kFloat);
      } else if (x.scalar_type() == at::kFloat) {
        product_into(products, d_wte, logits.t(), x_rows, /*accumulate=*/true);
      } else {
        d_wte.add_(product(products, logits.t(), x_rows));
      }
    }
    if (differentiated) context->save_for_backward({dx, d_wte});
    return losses.mean();
  }

  // Can be made only once: the gradients are multiplied in place.
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const variable_list saved = context->get_saved_variables();
    const auto scale = upstream[0].item<double>();
    if (scale != 1) {
      saved[0].mul_(scale);
      saved[1].mul_(scale);
    }
    return {saved[0], saved[1], Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

decltype(Ops::head_loss) fused_head_loss(Products products) {
  return [products](const Ops& ops, const Tensor& x, const Tensor& wte, const Tensor& targets, int64_t vocabulary) {
    ops.on_part(-1, "head_loss");
    const Tensor input = x.reshape({-1, x.size(-1)}).to(product_type(x));
    const Node node("model::fused_head_loss");
    return FusedHeadLoss::apply(input, wte, targets.flatten(), vocabulary, products, at::GradMode::is_enabled());
  };
}

}  // namespace model
