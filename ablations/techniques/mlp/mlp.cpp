// The MLP as one operation: two matrix products, and bias and GELU between them. Backward, GELU's gradient and the
// bias's are made together.
#include "ablations/techniques/mlp/mlp.h"

#include "ablations/techniques/cpu/thread_sums.h"
#include "ablations/techniques/cuda/built.h"
#include "ablations/techniques/operations.h"

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
                        const Tensor& weight_proj, const Tensor& b_proj, const MlpKernels* kernels,
                        const LinearProducts* products, Gradients* gradients) {
    const Tensor w_fc = weight_fc.to(x.scalar_type()), w_proj = weight_proj.to(x.scalar_type());
    const MlpKernels::Hidden made = kernels->forward(*products, x, w_fc, b_fc);
    context->save_for_backward(
        {x, made.fc, kernels->keeps_hidden ? made.hidden : Tensor(), w_fc, b_fc, w_proj, b_proj});
    context->saved_data["kernels"] = handle_of(kernels);
    context->saved_data["products"] = handle_of(products);
    context->saved_data["gradients"] = handle_of(gradients);
    return products->product(made.hidden, w_proj.t(), b_proj);
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const Node node("model::fused_mlp_backward");
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &w_fc = saved[3], &b_fc = saved[4], &w_proj = saved[5], &b_proj = saved[6];
    const auto* products = from_handle<const LinearProducts>(context->saved_data["products"]);
    auto* gradients = from_handle<Gradients>(context->saved_data["gradients"]);
    const Tensor dy = upstream[0].contiguous();
    const auto [d_fc, hidden, d_b_fc] = from_handle<const MlpKernels>(context->saved_data["kernels"])
                                            ->backward(*products, gradients, dy, w_proj, b_fc, {saved[1], saved[2]});
    return {products->product(d_fc, w_fc, {}),
            products->weight_gradient(gradients, w_fc, d_fc, x),
            d_b_fc,
            products->weight_gradient(gradients, w_proj, dy, hidden),
            gradient_of_bias(*products, gradients, b_proj, dy),
            Tensor(),
            Tensor(),
            Tensor()};
  }
};

}  // namespace

decltype(Ops::mlp) fused_mlp(const MlpKernels& kernels, const LinearProducts& products, Gradients* gradients) {
  return [kernels = &kernels, products = &products, gradients](const Ops& ops, int64_t layer, const Tensor& x,
                                                               const Affine& c_fc, const Affine& c_proj) {
    ops.on_part(layer, "mlp");
    const Tensor input = x.reshape({-1, x.size(-1)}).to(product_type(x)).contiguous();
    const Node node("model::fused_mlp");
    return FusedMlp::apply(input, c_fc.weight, c_fc.bias, c_proj.weight, c_proj.bias, kernels, products, gradients)
        .view(x.sizes());
  };
}

void install_mlp(const Recipe& recipe, Gradients* gradients, Ops& ops) {
  if (recipe.mlp != Mlp::fused) return;
  if (recipe.device == Device::cpu) {
    ops.mlp = fused_mlp(mlp_on_cpu, products_of(recipe), gradients);
  } else if constexpr (has_cuda_kernels) {
    ops.mlp = fused_mlp(mlp_on_cuda, cuda_products, gradients);
  }
}

}  // namespace model
