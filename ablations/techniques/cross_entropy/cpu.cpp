// Head and cross-entropy as one operation, some rows at a time: the logits of a chunk of rows become their own gradient
// in place, and the products that need them are made before the next chunk. So the matrix (B T, V) never exists as a
// whole, and what is kept for the backward pass is its result: the gradients of x and of the embedding.
#include "ablations/techniques/cpu/fused.h"
#include "ablations/techniques/cpu/kernels.h"
#include "ablations/techniques/products/products.h"
#include "model/gradients.h"
#include "model/ops.h"
#include "model/step_memory.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace model {

using at::Tensor;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FusedHeadLoss : torch::autograd::Function<FusedHeadLoss> {
  // x (N, C) of the products' type, wte (V, C) of it or float32, targets (N) int64 -> 0-dim float32
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& wte, const Tensor& targets,
                        int64_t vocabulary, Products products, bool differentiated, Gradients* gradients) {
    const int64_t N = x.size(0), V = wte.size(0);
    const Tensor weight = wte.to(x.scalar_type());
    const Tensor losses = at::empty({N}, x.options().dtype(at::kFloat));
    const Tensor dx = differentiated ? at::empty_like(x) : Tensor();
    // A gradient that is added to others cannot be multiplied later, so the loss's factor is in it from the start.
    const auto factor = static_cast<float>(gradients != nullptr ? gradients->loss_factor() : 1.0);
    Gradients::Place d_wte;
    if (differentiated) {
      d_wte = gradients != nullptr ? gradients->place_of(wte)
                                   : Gradients::Place{.buffer = at::empty(wte.sizes(), losses.options())};
    }
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
                           .scale = factor / static_cast<float>(N),
                           .write_gradient = differentiated};
      at::parallel_for(0, n, 1, [&](int64_t first, int64_t last) { cpu::kernels().loss(call, first, last); });
      if (!differentiated) continue;
      product_into(products, dx.narrow(0, begin, n), logits, weight, /*accumulate=*/false);
      product_into(products, d_wte.buffer, logits.t(), x_rows, d_wte.accumulate || begin > 0);
    }
    if (differentiated) context->save_for_backward({dx, gradients != nullptr ? Tensor() : d_wte.buffer});
    context->saved_data["factor"] = static_cast<double>(factor);
    return losses.mean();
  }

  // Can be made only once: the gradients are multiplied in place.
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const variable_list saved = context->get_saved_variables();
    const auto scale = upstream[0].item<double>();
    const Tensor &dx = saved[0], &d_wte = saved[1];
    if (d_wte.defined() && scale != 1) {
      dx.mul_(scale);
      d_wte.mul_(scale);
    }
    const double factor = context->saved_data["factor"].toDouble();
    TORCH_CHECK(d_wte.defined() || scale == factor, "FusedHeadLoss: the loss was multiplied by ", scale,
                ", but its gradient was made for ", factor);
    return {dx, d_wte, Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

decltype(Ops::head_loss) fused_head_loss(Products products, Gradients* gradients) {
  return [products, gradients](const Ops& ops, const Tensor& x, const Tensor& wte, const Tensor& targets,
                               int64_t vocabulary) {
    ops.on_part(-1, "head_loss");
    const Tensor input = x.reshape({-1, x.size(-1)}).to(product_type(x));
    const Node node("model::fused_head_loss");
    return FusedHeadLoss::apply(input, wte, targets.flatten(), vocabulary, products, at::GradMode::is_enabled(),
                                gradients);
  };
}

}  // namespace model
