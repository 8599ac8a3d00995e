// Head and cross-entropy as one operation, some rows at a time: the logits of a chunk of rows become their own gradient
// in place (kernels/cross_entropy.cu), and the products that need them are made before the next chunk. So the matrix
// (B T, V) never exists as a whole, and what is kept for the backward pass is its result: the gradients of x and of the
// embedding.
#include "model/cuda/blas.h"
#include "model/cuda/call.h"
#include "model/fused.h"
#include "model/kernels/cross_entropy.h"
#include "model/kernels/scale.h"
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
  // x (N, C) of the products' type, wte (V, C) float32, targets (N) int64 -> 0-dim float32
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& wte, const Tensor& targets,
                        int64_t vocabulary, int64_t chunk_bytes, bool differentiated) {
    const int64_t N = x.size(0), V = wte.size(0);
    const Tensor weight = wte.to(x.scalar_type());
    const Tensor losses = at::empty({N}, wte.options()), mean = at::empty({}, wte.options());
    const Tensor dx = differentiated ? at::empty_like(x) : Tensor();
    const Tensor d_wte = differentiated ? at::empty_like(wte) : Tensor();
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
                                   .scale = 1.0F / static_cast<float>(N)},
                                  stream_for(x));
      });
      if (!differentiated) continue;
      Tensor dx_rows = dx.narrow(0, begin, n);
      at::mm_out(dx_rows, logits, weight);
      blas::weight_gradient(d_wte, logits, x_rows, /*accumulate=*/begin > 0);
    }
    kernels::mean_loss(pointer<const float>(losses), N, pointer<float>(mean), stream_for(x));
    if (differentiated) context->save_for_backward({dx, d_wte});
    return mean;
  }

  // Can be made only once: the gradients are multiplied in place. Without a wait, because the factor stays on the
  // device.
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const variable_list saved = context->get_saved_variables();
    const auto* factor = pointer<const float>(upstream[0]);
    for (const Tensor& gradient : saved) {
      with_type(gradient.scalar_type(), [&]<class T>() {
        kernels::scale<T>(pointer<T>(gradient), gradient.numel(), factor, stream_for(gradient));
      });
      gradient.unsafeGetTensorImpl()->bump_version();  // by which autograd refuses a second time
    }
    return {saved[0], saved[1], Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

decltype(Ops::head_loss) cuda_head_loss(int64_t chunk_bytes) {
  return [chunk_bytes](const Ops& ops, const Tensor& x, const Tensor& wte, const Tensor& targets, int64_t vocabulary) {
    ops.on_part(-1, "head_loss");
    const Tensor input = x.reshape({-1, x.size(-1)}).to(product_type(x)).contiguous();
    const Node node("model::fused_head_loss");
    return FusedHeadLoss::apply(input, wte, targets.flatten().contiguous(), vocabulary, chunk_bytes,
                                at::GradMode::is_enabled());
  };
}

}  // namespace model
