// Head and cross-entropy as one operation, some rows at a time: the logits of a chunk of rows become their own gradient
// in place (kernels/cross_entropy.cu), and the products that need them are made before the next chunk. So the matrix
// (B T, V) never exists as a whole, and what is kept for the backward pass is its result: the gradients of x and of the
// embedding.
#include "ablations/techniques/cpu/fused.h"
#include "ablations/techniques/cross_entropy/cross_entropy.h"
#include "ablations/techniques/cross_entropy/scale.h"
#include "ablations/techniques/cuda/call.h"
#include "ablations/techniques/products/blas.h"
#include "model/gradients.h"
#include "model/ops.h"

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
                        int64_t vocabulary, int64_t chunk_bytes, bool differentiated, Gradients* gradients) {
    const int64_t N = x.size(0), V = wte.size(0);
    const Tensor weight = wte.to(x.scalar_type());
    const Tensor losses = at::empty({N}, x.options().dtype(at::kFloat)), mean = at::empty({}, losses.options());
    const Tensor dx = differentiated ? at::empty_like(x) : Tensor();
    const Gradients::Place d_wte = differentiated ? place_for(gradients, wte) : Gradients::Place();
    // A gradient that is added to others cannot be multiplied later, so the loss's factor is in it from the start.
    const auto factor = static_cast<float>(gradients != nullptr ? gradients->loss_factor() : 1.0);
    // Chunks of the same size, so that there is one shape of product to find the fastest algorithm for.
    const int64_t row_bytes = V * static_cast<int64_t>(x.element_size());
    const int64_t chunks = std::clamp<int64_t>((N * row_bytes + chunk_bytes - 1) / chunk_bytes, 1, N);
    const int64_t rows = (N + chunks - 1) / chunks;
    const Tensor all_logits = at::empty({rows, V}, x.options());
    for (int64_t begin = 0; begin < N; begin += rows) {
      const int64_t n = std::min(rows, N - begin);
      const Tensor x_rows = x.narrow(0, begin, n);
      Tensor logits = all_logits.narrow(0, 0, n);
      at::mm_out(logits, x_rows, weight.t());
      with_type(x.scalar_type(), [&]<class T>() {
        kernels::cross_entropy<T>({.logits = pointer<T>(logits),
                                   .targets = pointer<const int64_t>(targets) + begin,
                                   .losses = pointer<float>(losses) + begin,
                                   .N = n,
                                   .V = vocabulary,
                                   .stride = V,
                                   .scale = factor / static_cast<float>(N)},
                                  stream_for(x));
      });
      if (!differentiated) continue;
      Tensor dx_rows = dx.narrow(0, begin, n);
      at::mm_out(dx_rows, logits, weight);
      blas::weight_gradient(d_wte.buffer, logits, x_rows, d_wte.accumulate || begin > 0);
    }
    kernels::mean_loss(pointer<const float>(losses), N, pointer<float>(mean), stream_for(x));
    if (differentiated) context->save_for_backward({dx, gradients != nullptr ? Tensor() : d_wte.buffer});
    context->saved_data["gradients"] = handle_of(gradients);
    return mean;
  }

  // Can be made only once: the gradients are multiplied in place. Without a wait, because the factor stays on the
  // device. With static gradients they have the factor already, and nobody can compare it with the loss's own without
  // waiting for the device.
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const variable_list saved = context->get_saved_variables();
    if (gradients_of(context->saved_data["gradients"].toInt()) != nullptr) {
      saved[0].unsafeGetTensorImpl()->bump_version();
      return {saved[0], Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
    }
    const auto* factor = pointer<const float>(upstream[0]);
    for (const Tensor& gradient : saved) {
      with_type(gradient.scalar_type(), [&]<class T>() {
        kernels::scale<T>(pointer<T>(gradient), gradient.numel(), factor, stream_for(gradient));
      });
      gradient.unsafeGetTensorImpl()->bump_version();  // by which autograd refuses a second time
    }
    return {saved[0], saved[1], Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

decltype(Ops::head_loss) cuda_head_loss(int64_t chunk_bytes, Gradients* gradients) {
  return [chunk_bytes, gradients](const Ops& ops, const Tensor& x, const Tensor& wte, const Tensor& targets,
                                  int64_t vocabulary) {
    ops.on_part(-1, "head_loss");
    const Tensor input = x.reshape({-1, x.size(-1)}).to(product_type(x)).contiguous();
    const Node node("model::fused_head_loss");
    return FusedHeadLoss::apply(input, wte, targets.flatten().contiguous(), vocabulary, chunk_bytes,
                                at::GradMode::is_enabled(), gradients);
  };
}

}  // namespace model
