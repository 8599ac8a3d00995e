// The MLP as one operation: two matrix products, and between them one pass for bias and GELU. Backward, one pass makes
// GELU's gradient, the bias's, and GELU's result once more, which therefore is not kept: the 4C numbers a token that
// the second product reads live in the forward pass only until it has read them.
#include "ablations/techniques/cpu/fused.h"
#include "ablations/techniques/cpu/kernels.h"
#include "ablations/techniques/products/products.h"
#include "model/gradients.h"
#include "model/ops.h"

#include <torch/csrc/autograd/custom_function.h>

namespace model {

using at::Tensor;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FusedMlp : torch::autograd::Function<FusedMlp> {
  // x (rows, C), w_fc (4C, C), w_proj (C, 4C) of one type; b_fc (4C), b_proj (C) float32 -> (rows, C)
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& w_fc, const Tensor& b_fc,
                        const Tensor& w_proj, const Tensor& b_proj, Products products, Gradients* gradients) {
    const Tensor fc = product(products, x, w_fc.t());  // (rows, 4C), without bias
    const Tensor hidden = at::empty_like(fc);
    const cpu::Gelu call{.type = number_of(fc),
                         .x = fc.const_data_ptr(),
                         .bias = b_fc.const_data_ptr<float>(),
                         .y = hidden.mutable_data_ptr(),
                         .columns = fc.size(1)};
    at::parallel_for(0, fc.size(0), rows_at_once,
                     [&](int64_t begin, int64_t end) { cpu::kernels().gelu(call, begin, end); });
    context->save_for_backward({x, fc, w_fc, b_fc, w_proj, b_proj});
    context->saved_data["products"] = static_cast<int64_t>(products);
    context->saved_data["gradients"] = handle_of(gradients);
    return product(products, hidden, w_proj.t(), b_proj);
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const Node node("model::fused_mlp_backward");
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &fc = saved[1], &w_fc = saved[2], &b_fc = saved[3], &w_proj = saved[4],
                 &b_proj = saved[5];
    const auto products = static_cast<Products>(context->saved_data["products"].toInt());
    const Tensor dy = upstream[0].contiguous();
    const Tensor d_fc =
        product(products, dy, w_proj);  // (rows, 4C): first of GELU's result, then in place of its argument
    const Tensor hidden = at::empty_like(fc);
    const cpu::GeluBackward call{.type = number_of(fc),
                                 .x = fc.const_data_ptr(),
                                 .dy = d_fc.const_data_ptr(),
                                 .bias = b_fc.const_data_ptr<float>(),
                                 .y = hidden.mutable_data_ptr(),
                                 .dx = d_fc.mutable_data_ptr(),
                                 .columns = fc.size(1)};
    const ThreadSums d_b_fc(fc.size(1), b_fc);
    at::parallel_for(0, fc.size(0), rows_at_once, [&](int64_t begin, int64_t end) {
      cpu::kernels().gelu_backward(call, begin, end, d_b_fc.of_this_thread());
    });
    Gradients* gradients = gradients_of(context->saved_data["gradients"].toInt());
    return {product(products, d_fc, w_fc),
            deliver_product(products, gradients, w_fc, d_fc.t(), x),
            deliver(gradients, b_fc, d_b_fc.total()),
            deliver_product(products, gradients, w_proj, dy.t(), hidden),
            deliver(gradients, b_proj, dy.sum(0, false, at::kFloat)),
            Tensor(),
            Tensor()};
  }
};

}  // namespace

decltype(Ops::mlp) fused_mlp(Products products, Gradients* gradients) {
  return
      [products, gradients](const Ops& ops, int64_t layer, const Tensor& x, const Affine& c_fc, const Affine& c_proj) {
        ops.on_part(layer, "mlp");
        const at::ScalarType type = product_type(x);
        const Tensor input = x.reshape({-1, x.size(-1)}).to(type);
        const Tensor w_fc = product_copy(c_fc.weight, type), w_proj = product_copy(c_proj.weight, type);
        const Node node("model::fused_mlp");
        return FusedMlp::apply(input, w_fc, c_fc.bias, w_proj, c_proj.bias, products, gradients).view(x.sizes());
      };
}

}  // namespace model
