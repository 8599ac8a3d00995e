// Residual addition and LayerNorm in one kernel, forward and backward (kernels/add_norm.cu has the formulas).
#include "ablations/techniques/cpu/fused.h"
#include "ablations/techniques/cuda/call.h"
#include "ablations/techniques/norm/add_norm.h"
#include "model/gradients.h"
#include "model/ops.h"

#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace model {

using at::Tensor;

namespace {

using kernels::bf16;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// f.operator()<T, B>() for the stream's type and its branches'.
template <class F>
void with_types(at::ScalarType stream, at::ScalarType branch, const F& f) {
  if (stream == at::kFloat && branch == at::kFloat) {
    f.template operator()<float, float>();
  } else if (stream == at::kFloat && branch == at::kBFloat16) {
    f.template operator()<float, bf16>();
  } else {
    TORCH_CHECK(stream == at::kBFloat16 && branch == at::kBFloat16, "the fused LayerNorm of a stream of ",
                at::toString(stream), " knows no branches of ", at::toString(branch));
    f.template operator()<bf16, bf16>();
  }
}

struct FusedAddNorm : torch::autograd::Function<FusedAddNorm> {
  // x (N, C), y (N, C) of the type `out` or nothing; weight, bias (C) float32
  // -> {x + y, LayerNorm(x + y)}, without y {LayerNorm(x)}
  static variable_list forward(AutogradContext* context, const Tensor& x, const std::optional<Tensor>& added,
                               const Tensor& weight, const Tensor& bias, double eps, at::ScalarType out,
                               Gradients* gradients) {
    const Tensor y = added.value_or(Tensor());
    TORCH_CHECK(!y.defined() || y.scalar_type() == out, "the fused LayerNorm adds ", at::toString(out), ", not ",
                y.defined() ? at::toString(y.scalar_type()) : "nothing");
    const int64_t N = x.size(0), C = x.size(1);
    const Tensor sum = y.defined() ? at::empty_like(x) : x;
    const Tensor normalized = at::empty({N, C}, x.options().dtype(out));
    const Tensor mean = at::empty({N}, x.options().dtype(at::kFloat)), rstd = at::empty_like(mean);
    with_types(x.scalar_type(), out, [&]<class T, class B>() {
      kernels::add_norm_forward<T, B, float>({.x = pointer<const T>(x),
                                              .y = pointer<const B>(y),
                                              .weight = pointer<const float>(weight),
                                              .bias = pointer<const float>(bias),
                                              .sum = y.defined() ? pointer<T>(sum) : nullptr,
                                              .normalized = pointer<B>(normalized),
                                              .mean = pointer<float>(mean),
                                              .rstd = pointer<float>(rstd),
                                              .N = N,
                                              .C = C,
                                              .eps = static_cast<float>(eps)},
                                             stream_for(x));
    });
    context->set_materialize_grads(false);
    context->save_for_backward({sum, mean, rstd, weight, bias});
    context->saved_data["gradients"] = handle_of(gradients);
    context->saved_data["adds"] = y.defined();
    return y.defined() ? variable_list{sum, normalized} : variable_list{normalized};
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &sum = saved[0], &mean = saved[1], &rstd = saved[2], &weight = saved[3], &bias = saved[4];
    Gradients* gradients = gradients_of(context->saved_data["gradients"].toInt());
    const bool adds = context->saved_data["adds"].toBool();
    const Tensor d_sum = adds && upstream[0].defined() ? upstream[0].contiguous() : Tensor();
    TORCH_CHECK(upstream.back().defined(), "FusedAddNorm: nothing was made of the normalized rows");
    const Tensor d_normalized = upstream.back().contiguous();
    const int64_t N = sum.size(0), C = sum.size(1);

    const Tensor dx = at::empty_like(sum);
    const Gradients::Place d_weight = place_for(gradients, weight), d_bias = place_for(gradients, bias);
    TORCH_CHECK(d_weight.accumulate == d_bias.accumulate, "FusedAddNorm: one gradient of two is the first of its step");
    const bool own_dy = adds && d_normalized.scalar_type() != sum.scalar_type();
    const Tensor dy = own_dy ? at::empty_like(d_normalized) : Tensor();
    const Tensor workspace = at::empty({kernels::add_norm_backward_workspace(N, C)}, mean.options());
    with_types(sum.scalar_type(), d_normalized.scalar_type(), [&]<class T, class B>() {
      kernels::add_norm_backward<T, B, float>({.of_sum = pointer<const T>(d_sum),
                                               .of_normalized = pointer<const B>(d_normalized),
                                               .sum = pointer<const T>(sum),
                                               .weight = pointer<const float>(weight),
                                               .mean = pointer<const float>(mean),
                                               .rstd = pointer<const float>(rstd),
                                               .gradient = pointer<T>(dx),
                                               .branch_gradient = pointer<B>(dy),
                                               .weight_gradient = pointer<float>(d_weight.buffer),
                                               .bias_gradient = pointer<float>(d_bias.buffer),
                                               .accumulate = d_weight.accumulate,
                                               .workspace = pointer<float>(workspace),
                                               .N = N,
                                               .C = C},
                                              stream_for(sum));
    });
    const bool returned = gradients == nullptr;
    return {dx,
            !adds    ? Tensor()
            : own_dy ? dy
                     : dx,
            returned ? d_weight.buffer : Tensor(),
            returned ? d_bias.buffer : Tensor(),
            Tensor(),
            Tensor(),
            Tensor()};
  }
};

}  // namespace

decltype(Ops::add_norm) cuda_add_norm(Gradients* gradients) {
  return [gradients](const Ops& ops, const Ops::Place& place, const Tensor& x, const Tensor& y, const Affine& norm,
                     double eps) -> Ops::Normed {
    ops.on_part(place.layer, place.part);
    const at::ScalarType out = product_type(x);
    const auto rows = [](const Tensor& t) { return t.reshape({-1, t.size(-1)}).contiguous(); };
    const std::optional<Tensor> added(y.defined() ? rows(y) : y);
    const Node node("model::fused_add_norm");
    const variable_list results = FusedAddNorm::apply(rows(x), added, norm.weight, norm.bias, eps, out, gradients);
    return {y.defined() ? results[0].view(x.sizes()) : x, results.back().view(x.sizes())};
  };
}

}  // namespace model
