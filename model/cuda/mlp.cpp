// The MLP as one operation. Bias and GELU are made where the first product writes its result, and GELU's gradient with
// the bias's where the second product's gradient is written (cuda/blas.h), or by kernels of our own after plain
// products where that is faster. What GELU reads and what it makes are both kept for the backward pass.
#include "model/cuda/blas.h"
#include "model/cuda/call.h"
#include "model/fused.h"
#include "model/kernels/column_sum.h"
#include "model/kernels/gelu.h"
#include "model/ops.h"

#include <torch/csrc/autograd/custom_function.h>

namespace model {

using at::Tensor;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// sums (C) float32 <- over the rows of x (N, C)
void column_sum(const Tensor& x, const Tensor& sums) {
  const int64_t N = x.size(0), C = x.size(1);
  with_type(x.scalar_type(), [&]<class T>() {
    const Tensor workspace = at::empty({kernels::column_sum_workspace<T>(N, C)}, sums.options());
    kernels::column_sum<T>({.values = pointer<const T>(x),
                            .N = N,
                            .C = C,
                            .sums = pointer<float>(sums),
                            .accumulate = false,
                            .workspace = pointer<float>(workspace)},
                           stream_for(x));
  });
}

struct FusedMlp : torch::autograd::Function<FusedMlp> {
  // x (N, C) of the products' type, weight_fc (4C, C), b_fc (4C), weight_proj (C, 4C), b_proj (C) float32 -> (N, C)
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight_fc, const Tensor& b_fc,
                        const Tensor& weight_proj, const Tensor& b_proj) {
    const auto as_x = [&](const Tensor& t) { return t.to(x.scalar_type()); };
    const Tensor w_fc = as_x(weight_fc), bias = as_x(b_fc), w_proj = as_x(weight_proj);
    Tensor fc = at::empty({x.size(0), w_fc.size(0)}, x.options()),
           y = at::empty({x.size(0), w_proj.size(0)}, x.options());
    const Tensor hidden = at::empty_like(fc);
    blas::gelu({.fc = fc, .hidden = hidden, .x = x, .weight = w_fc, .bias = bias}, [&] {
      at::addmm_out(fc, bias, x, w_fc.t());
      with_type(x.scalar_type(), [&]<class T>() {
        kernels::gelu_forward<T>(pointer<const T>(fc), pointer<T>(hidden), fc.numel(), stream_for(fc));
      });
    });
    at::addmm_out(y, as_x(b_proj), hidden, w_proj.t());
    context->save_for_backward({x, fc, hidden, w_fc, w_proj});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &fc = saved[1], &hidden = saved[2], &w_fc = saved[3], &w_proj = saved[4];
    const Tensor dy = upstream[0].contiguous();
    const auto float32 = [&](at::IntArrayRef shape) { return at::empty(shape, x.options().dtype(at::kFloat)); };
    Tensor d_fc = at::empty_like(fc);
    const Tensor d_b_fc = float32({fc.size(1)}), d_b_proj = float32({dy.size(1)});
    blas::gelu_backward({.d_fc = d_fc, .d_bias = d_b_fc, .dy = dy, .weight = w_proj, .fc = fc}, [&] {
      at::mm_out(d_fc, dy, w_proj);
      with_type(x.scalar_type(), [&]<class T>() {
        kernels::gelu_backward<T>(pointer<const T>(fc), pointer<const T>(d_fc), pointer<T>(d_fc), fc.numel(),
                                  stream_for(fc));
      });
      column_sum(d_fc, d_b_fc);
    });
    const Tensor d_w_fc = float32(w_fc.sizes()), d_w_proj = float32(w_proj.sizes());
    blas::weight_gradient(d_w_fc, d_fc, x, /*accumulate=*/false);
    blas::weight_gradient(d_w_proj, dy, hidden, /*accumulate=*/false);
    column_sum(dy, d_b_proj);
    return {at::mm(d_fc, w_fc), d_w_fc, d_b_fc, d_w_proj, d_b_proj};
  }
};

}  // namespace

decltype(Ops::mlp) cuda_mlp() {
  return [](const Ops& ops, int64_t layer, const Tensor& x, const Affine& c_fc, const Affine& c_proj) {
    ops.on_part(layer, "mlp");
    const Tensor input = x.reshape({-1, x.size(-1)}).to(product_type(x)).contiguous();
    const Node node("model::fused_mlp");
    return FusedMlp::apply(input, c_fc.weight, c_fc.bias, c_proj.weight, c_proj.bias).view(x.sizes());
  };
}

}  // namespace model
