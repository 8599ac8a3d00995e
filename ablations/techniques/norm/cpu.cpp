// Residual addition and LayerNorm in one pass over the rows, forward and backward (cpu/kernels.h has the formulas).
//
// PyTorch adds, writes the sum, and LayerNorm reads it again; under autocast its result is float32, which the next
// matrix product reads and writes once more in 16 bits. Here a row stays in the cache from the addition to the
// normalized result, which is written in the type that the product reads. Backward, the gradient that comes along the
// stream is added where LayerNorm's is made.
#include "ablations/techniques/cpu/fused.h"
#include "ablations/techniques/cpu/kernels.h"
#include "model/gradients.h"
#include "model/ops.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace model {

using at::Tensor;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FusedAddNorm : torch::autograd::Function<FusedAddNorm> {
  // x (rows, C), y (rows, C) or nothing; weight, bias (C) float32
  // -> {x + y, LayerNorm(x + y)}, without y {LayerNorm(x)}
  static variable_list forward(AutogradContext* context, const Tensor& x, const std::optional<Tensor>& added,
                               const Tensor& weight, const Tensor& bias, double eps, at::ScalarType out,
                               Gradients* gradients) {
    const Tensor y = added.value_or(Tensor());
    const int64_t rows = x.size(0), C = x.size(1);
    TORCH_CHECK(
        x.scalar_type() == at::kFloat || ((!y.defined() || y.scalar_type() == at::kBFloat16) && out == at::kBFloat16),
        "the fused LayerNorm of a 16-bit stream needs 16-bit branches and results");
    const Tensor sum = y.defined() ? at::empty_like(x) : x;
    const Tensor normalized = at::empty({rows, C}, x.options().dtype(out));
    const Tensor mean = at::empty({rows}, x.options().dtype(at::kFloat)), rstd = at::empty_like(mean);
    const cpu::AddNorm call{.stream = number_of(x),
                            .branch = y.defined() ? number_of(y) : number_of(x),
                            .out = number_of(normalized),
                            .x = x.const_data_ptr(),
                            .y = y.defined() ? y.const_data_ptr() : nullptr,
                            .sum = y.defined() ? sum.mutable_data_ptr() : nullptr,
                            .normalized = normalized.mutable_data_ptr(),
                            .mean = mean.mutable_data_ptr<float>(),
                            .rstd = rstd.mutable_data_ptr<float>(),
                            .weight = weight.const_data_ptr<float>(),
                            .bias = bias.const_data_ptr<float>(),
                            .C = C,
                            .eps = static_cast<float>(eps)};
    at::parallel_for(0, rows, rows_at_once,
                     [&](int64_t begin, int64_t end) { cpu::kernels().add_norm(call, begin, end); });
    context->set_materialize_grads(false);
    context->save_for_backward({sum, mean, rstd, weight, bias});
    context->saved_data["gradients"] = handle_of(gradients);
    context->saved_data["branch"] = static_cast<int64_t>(y.defined() ? y.scalar_type() : at::ScalarType::Undefined);
    return y.defined() ? variable_list{sum, normalized} : variable_list{normalized};
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const Node node("model::fused_add_norm_backward");
    const variable_list saved = context->get_saved_variables();
    const Tensor &sum = saved[0], &mean = saved[1], &rstd = saved[2], &weight = saved[3], &bias = saved[4];
    const auto branch = static_cast<at::ScalarType>(context->saved_data["branch"].toInt());
    const bool has_branch = branch != at::ScalarType::Undefined;
    const Tensor d_sum = has_branch && upstream[0].defined() ? upstream[0].contiguous() : Tensor();
    const Tensor& d_out = upstream.back();
    TORCH_CHECK(d_out.defined(), "FusedAddNorm: nothing was made of the normalized rows");
    const Tensor d_normalized = d_out.contiguous();
    const int64_t rows = sum.size(0), C = sum.size(1);

    const Tensor dx = at::empty_like(sum);
    const bool own_dy = has_branch && branch != sum.scalar_type();
    const Tensor dy = own_dy ? at::empty({rows, C}, sum.options().dtype(branch)) : Tensor();
    const cpu::AddNormBackward call{.stream = number_of(sum),
                                    .branch = has_branch ? number_of(branch) : number_of(sum),
                                    .out = number_of(d_normalized),
                                    .sum = sum.const_data_ptr(),
                                    .d_sum = d_sum.defined() ? d_sum.const_data_ptr() : nullptr,
                                    .d_normalized = d_normalized.const_data_ptr(),
                                    .dx = dx.mutable_data_ptr(),
                                    .dy = own_dy ? dy.mutable_data_ptr() : nullptr,
                                    .mean = mean.const_data_ptr<float>(),
                                    .rstd = rstd.const_data_ptr<float>(),
                                    .weight = weight.const_data_ptr<float>(),
                                    .C = C};
    const ThreadSums sums(2 * C, weight);
    at::parallel_for(0, rows, rows_at_once, [&](int64_t begin, int64_t end) {
      float* own = sums.of_this_thread();
      cpu::kernels().add_norm_backward(call, begin, end, own, own + C);
    });
    const Tensor of_weight_and_bias = sums.total().view({2, C});
    Gradients* gradients = gradients_of(context->saved_data["gradients"].toInt());
    const Tensor d_branch = own_dy ? dy : has_branch ? dx : Tensor();
    return {dx,
            d_branch,
            deliver(gradients, weight, of_weight_and_bias[0]),
            deliver(gradients, bias, of_weight_and_bias[1]),
            Tensor(),
            Tensor(),
            Tensor()};
  }
};

}  // namespace

decltype(Ops::add_norm) fused_add_norm(Gradients* gradients) {
  return [gradients](const Ops& ops, const Ops::Place& place, const Tensor& x, const Tensor& y, const Affine& norm,
                     double eps) -> Ops::Normed {
    ops.on_part(place.layer, place.part);
    const at::ScalarType out = product_type(x);
    const int64_t C = x.size(-1);
    const std::optional<Tensor> added = y.defined() ? std::optional(y.reshape({-1, C})) : std::nullopt;
    const Node node("model::fused_add_norm");
    const variable_list results =
        FusedAddNorm::apply(x.reshape({-1, C}), added, norm.weight, norm.bias, eps, out, gradients);
    return {y.defined() ? results[0].view(x.sizes()) : x, results.back().view(x.sizes())};
  };
}

}  // namespace model
