// Head and cross-entropy as one operation, a chunk of rows at a time. The logits of a chunk become their own gradient
// in place. The products that need them are made before the next chunk. So the matrix (B T, V) never exists as a whole.
// The forward pass makes the gradients of x and of the embedding and keeps them for the backward pass.
#include "ablations/techniques/cross_entropy/head_loss.h"

#include "ablations/techniques/cpu/thread_sums.h"
#include "ablations/techniques/cuda/built.h"
#include "ablations/techniques/fp8/copies.h"
#include "ablations/techniques/operations.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

namespace model {

using at::Tensor;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FusedHeadLoss : torch::autograd::Function<FusedHeadLoss> {
  // x (N, C) of the products' type, wte (V, C) of it or float32, targets (N) int64 -> 0-dim float32
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& wte, const Tensor& targets,
                        int64_t vocabulary, int64_t chunk_bytes, bool differentiated, const HeadLossKernels* kernels,
                        const LinearProducts* products, Gradients* gradients) {
    const int64_t N = x.size(0), V = wte.size(0);
    const Tensor weight = wte.to(x.scalar_type());
    const Tensor losses = at::empty({N}, x.options().dtype(at::kFloat));
    const Tensor dx = differentiated ? at::empty_like(x) : Tensor();
    const Gradients::Place d_wte = differentiated ? place_for(gradients, wte) : Gradients::Place();
    // A gradient that is added to others cannot be multiplied later. So it has the loss's factor from the start.
    const auto factor = static_cast<float>(gradients != nullptr ? gradients->loss_factor() : 1.0);
    const bool fp8 = fp8::weight_of(weight).has_value();
    const int64_t rows = head_loss_rows(N, V * static_cast<int64_t>(x.element_size()), chunk_bytes);
    const Tensor all_logits = at::empty({rows, V}, x.options());
    for (int64_t begin = 0; begin < N; begin += rows) {
      const int64_t n = std::min(rows, N - begin);
      const Tensor x_rows = x.narrow(0, begin, n), logits = all_logits.narrow(0, 0, n);
      products->product_into(logits, x_rows, weight.t());
      kernels->loss(logits, targets.narrow(0, begin, n), losses.narrow(0, begin, n), vocabulary,
                    factor / static_cast<float>(N), differentiated, differentiated && fp8);
      if (!differentiated) continue;
      products->product_into(dx.narrow(0, begin, n), logits, weight);
      products->weight_gradient_into({d_wte.buffer, d_wte.accumulate || begin > 0}, logits, x_rows);
    }
    if (differentiated) context->save_for_backward({dx, gradients != nullptr ? Tensor() : d_wte.buffer});
    context->saved_data["kernels"] = handle_of(kernels);
    context->saved_data["factor"] = static_cast<double>(factor);
    return kernels->mean(losses);
  }

  // Works only once. Static gradients have the factor already; others are multiplied in place.
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &dx = saved[0], &d_wte = saved[1];
    const auto* kernels = from_handle<const HeadLossKernels>(context->saved_data["kernels"]);
    if (d_wte.defined()) {
      kernels->scale(dx, upstream[0]);
      kernels->scale(d_wte, upstream[0]);
    } else if (kernels->check_factor != nullptr) {
      kernels->check_factor(upstream[0], context->saved_data["factor"].toDouble());
    }
    for (const Tensor& gradient : saved) {
      if (gradient.defined()) gradient.unsafeGetTensorImpl()->bump_version();  // autograd refuses a second time
    }
    return {dx, d_wte, Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

decltype(Ops::head_loss) fused_head_loss(const HeadLossKernels& kernels, const LinearProducts& products,
                                         int64_t chunk_bytes, Gradients* gradients) {
  return [kernels = &kernels, products = &products, chunk_bytes, gradients](
             const Ops& ops, const Tensor& x, const Tensor& wte, const Tensor& targets, int64_t vocabulary) {
    ops.on_part(-1, "head_loss");
    const Tensor input = x.reshape({-1, x.size(-1)}).to(product_type(x)).contiguous();
    const Node node("model::fused_head_loss");
    return FusedHeadLoss::apply(input, wte, targets.flatten().contiguous(), vocabulary, chunk_bytes,
                                at::GradMode::is_enabled(), kernels, products, gradients);
  };
}

void install_cross_entropy(const Recipe& recipe, Gradients* gradients, Ops& ops) {
  if (recipe.cross_entropy == CrossEntropy::in_place) ops.cross_entropy = in_place_cross_entropy();
  if (recipe.cross_entropy != CrossEntropy::fused) return;
  const bool on_cuda = recipe.device == Device::cuda;
  const LinearProducts& products = products_of(recipe);
  if (!on_cuda) {
    ops.head_loss = fused_head_loss(head_loss_on_cpu, products, head_loss_chunk_bytes(on_cuda), gradients);
  } else if constexpr (has_cuda_kernels) {
    ops.head_loss = fused_head_loss(head_loss_on_cuda, products, head_loss_chunk_bytes(on_cuda), gradients);
  }
}

}  // namespace model
