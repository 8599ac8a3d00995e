// The MLP as one operation. Bias and GELU are made where the first product writes its result, and GELU's gradient with
// the bias's where the second product's gradient is written (cuda/blas.h), or by kernels of our own after plain
// products where that is faster. What GELU reads and what it makes are both kept for the backward pass.
#include "ablations/techniques/cpu/fused.h"
#include "ablations/techniques/cuda/call.h"
#include "ablations/techniques/mlp/gelu.h"
#include "ablations/techniques/products/blas.h"
#include "ablations/techniques/products/linear_gradients.h"
#include "model/gradients.h"
#include "model/ops.h"

#include <torch/csrc/autograd/custom_function.h>

namespace model {

using at::Tensor;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FusedMlp : torch::autograd::Function<FusedMlp> {
  // x (N, C) of the products' type, weight_fc (4C, C), weight_proj (C, 4C) of it or float32, b_fc (4C), b_proj (C)
  // float32 -> (N, C)
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight_fc, const Tensor& b_fc,
                        const Tensor& weight_proj, const Tensor& b_proj, Gradients* gradients) {
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
    context->save_for_backward({x, fc, hidden, w_fc, b_fc, w_proj, b_proj});
    context->saved_data["gradients"] = handle_of(gradients);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &fc = saved[1], &hidden = saved[2], &w_fc = saved[3], &b_fc = saved[4],
                 &w_proj = saved[5], &b_proj = saved[6];
    Gradients* gradients = gradients_of(context->saved_data["gradients"].toInt());
    const Tensor dy = upstream[0].contiguous();
    Tensor d_fc = at::empty_like(fc);
    // Of its own: where products are timed it is made several times, and could not be added to another.
    const Tensor d_b_fc = at::empty_like(b_fc);
    blas::gelu_backward({.d_fc = d_fc, .d_bias = d_b_fc, .dy = dy, .weight = w_proj, .fc = fc}, [&] {
      at::mm_out(d_fc, dy, w_proj);
      with_type(x.scalar_type(), [&]<class T>() {
        kernels::gelu_backward<T>(pointer<const T>(fc), pointer<const T>(d_fc), pointer<T>(d_fc), fc.numel(),
                                  stream_for(fc));
      });
      column_sum(d_fc, {.buffer = d_b_fc});
    });
    return {at::mm(d_fc, w_fc),
            weight_gradient(gradients, w_fc, d_fc, x),
            deliver(gradients, b_fc, d_b_fc),
            weight_gradient(gradients, w_proj, dy, hidden),
            bias_gradient(gradients, b_proj, dy),
            Tensor()};
  }
};

}  // namespace

decltype(Ops::mlp) cuda_mlp(Gradients* gradients) {
  return [gradients](const Ops& ops, int64_t layer, const Tensor& x, const Affine& c_fc, const Affine& c_proj) {
    ops.on_part(layer, "mlp");
    const Tensor input = x.reshape({-1, x.size(-1)}).to(product_type(x)).contiguous();
    const Node node("model::fused_mlp");
    return FusedMlp::apply(input, c_fc.weight, c_fc.bias, c_proj.weight, c_proj.bias, gradients).view(x.sizes());
  };
}

}  // namespace model
