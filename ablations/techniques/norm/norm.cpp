// Residual addition and LayerNorm in one pass over the rows, forward and backward.
//
// PyTorch adds, writes the sum, and LayerNorm reads it again. Under autocast its result is float32, which the next
// matrix product reads and writes once more in 16 bits. Here a row stays near the processor from the addition to the
// normalized result, which has the type that the product reads. Backward, the gradient that comes along the stream is
// added where LayerNorm's is made.
#include "ablations/techniques/norm/norm.h"

#include "ablations/techniques/cpu/thread_sums.h"
#include "ablations/techniques/cuda/built.h"
#include "ablations/techniques/operations.h"

#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace model {

using at::Tensor;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FusedAddNorm : torch::autograd::Function<FusedAddNorm> {
  // x (N, C), y (N, C) or nothing; weight, bias (C) float32 -> {x + y, LayerNorm(x + y)}, without y {LayerNorm(x)}
  static variable_list forward(AutogradContext* context, const Tensor& x, const std::optional<Tensor>& added,
                               const Tensor& weight, const Tensor& bias, const std::optional<Tensor>& added_bias,
                               double eps, at::ScalarType out, const AddNormKernels* kernels, Gradients* gradients) {
    const Tensor y = added.value_or(Tensor());
    const bool wide = x.scalar_type() == at::kFloat;
    TORCH_CHECK(wide || ((!y.defined() || y.scalar_type() == x.scalar_type()) && out == x.scalar_type()),
                "the fused LayerNorm of a stream of ", x.scalar_type(), " needs branches and results of this type");
    const Tensor sum = y.defined() ? at::empty_like(x) : x;
    const Tensor normalized = at::empty(x.sizes(), x.options().dtype(out));
    const Tensor mean = at::empty({x.size(0)}, x.options().dtype(at::kFloat)), rstd = at::empty_like(mean);
    kernels->forward({x, y, weight, bias, sum, normalized, mean, rstd, eps});
    context->set_materialize_grads(false);
    context->save_for_backward({sum, mean, rstd, weight, bias, added_bias.value_or(Tensor())});
    context->saved_data["kernels"] = handle_of(kernels);
    context->saved_data["gradients"] = handle_of(gradients);
    context->saved_data["branch"] = static_cast<int64_t>(y.defined() ? y.scalar_type() : at::ScalarType::Undefined);
    return y.defined() ? variable_list{sum, normalized} : variable_list{normalized};
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const Node node("model::fused_add_norm_backward");
    const variable_list saved = context->get_saved_variables();
    const Tensor &sum = saved[0], &mean = saved[1], &rstd = saved[2], &weight = saved[3], &bias = saved[4],
                 &added_bias = saved[5];
    const auto branch = static_cast<at::ScalarType>(context->saved_data["branch"].toInt());
    const bool adds = branch != at::ScalarType::Undefined, own_dy = adds && branch != sum.scalar_type();
    const Tensor d_sum = adds && upstream[0].defined() ? upstream[0].contiguous() : Tensor();
    TORCH_CHECK(upstream.back().defined(), "FusedAddNorm: nothing was made of the normalized rows");
    const Tensor d_normalized = upstream.back().contiguous(), dx = at::empty_like(sum);
    const Tensor dy = own_dy ? at::empty(sum.sizes(), sum.options().dtype(branch)) : Tensor();
    auto* gradients = from_handle<Gradients>(context->saved_data["gradients"]);
    const Gradients::Place d_weight = place_for(gradients, weight), d_bias = place_for(gradients, bias);
    const Gradients::Place d_added_bias = added_bias.defined() ? place_for(gradients, added_bias) : Gradients::Place();
    from_handle<const AddNormKernels>(context->saved_data["kernels"])
        ->backward({d_sum, d_normalized, sum, weight, mean, rstd, added_bias, dx, dy, d_weight, d_bias, d_added_bias,
                    gradients});
    const auto returned = [&](const Gradients::Place& place) { return gradients == nullptr ? place.buffer : Tensor(); };
    const Tensor d_added = own_dy ? dy : adds ? dx : Tensor();
    return {dx,       d_added,  returned(d_weight), returned(d_bias), returned(d_added_bias),
            Tensor(), Tensor(), Tensor(),           Tensor()};
  }
};

}  // namespace

decltype(Ops::add_norm) fused_add_norm(const AddNormKernels& kernels, Gradients* gradients) {
  return [kernels = &kernels, gradients](const Ops& ops, const Ops::Place& place, const Tensor& x, const Tensor& y,
                                         const Affine& norm, double eps) -> Ops::Normed {
    ops.on_part(place.layer, place.part);
    const auto rows = [](const Tensor& t) { return t.reshape({-1, t.size(-1)}).contiguous(); };
    const std::optional<Tensor> added = y.defined() ? std::optional(rows(y)) : std::nullopt;
    const std::optional<Tensor> added_bias =
        ops.add_norm_makes_bias_gradient ? std::optional(place.added_bias) : std::nullopt;
    const Node node("model::fused_add_norm");
    const variable_list results = FusedAddNorm::apply(rows(x), added, norm.weight, norm.bias, added_bias, eps,
                                                      product_type(x), kernels, gradients);
    return {y.defined() ? results[0].view(x.sizes()) : x, results.back().view(x.sizes())};
  };
}

void install_norm(const Recipe& recipe, Gradients* gradients, Ops& ops) {
  if (recipe.norm != Norm::fused) return;
  if (recipe.device == Device::cpu) {
    ops.add_norm = fused_add_norm(add_norm_on_cpu, gradients);
  } else if constexpr (has_cuda_kernels) {
    ops.add_norm_makes_bias_gradient = gradients != nullptr;
    ops.add_norm = fused_add_norm(add_norm_on_cuda, gradients);
  }
}

}  // namespace model
