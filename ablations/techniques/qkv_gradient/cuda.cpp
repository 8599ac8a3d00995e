#include "ablations/techniques/cpu/thread_sums.h"
#include "ablations/techniques/cuda/call.h"
#include "ablations/techniques/fp8/bytes.h"
#include "ablations/techniques/products/column_sum.h"
#include "ablations/techniques/products/strips.h"
#include "ablations/techniques/qkv_gradient/join.h"
#include "ablations/techniques/qkv_gradient/qkv_gradient.h"

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace model {

using at::Tensor;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// dq, dk and dv (B, T, C) of one type -> (B, T, 3C), and the sums of its columns over strips of rows (strips, 3C)
std::pair<Tensor, Tensor> joined(const Tensor& dq, const Tensor& dk, const Tensor& dv, bool fp8) {
  const int64_t B = dq.size(0), T = dq.size(1), C = dq.size(2);
  const Tensor query = dq.contiguous(), key = dk.contiguous(), value = dv.contiguous();
  Tensor together = at::empty({B, T, 3 * C}, dq.options()), strips;
  if (fp8) {
    using kernels::bf16;
    const Tensor rows = together.view({B * T, 3 * C});
    strips = at::empty({kernels::row_copies_strips(B * T, 3 * C), 3 * C}, dq.options().dtype(at::kFloat));
    kernels::join_fp8({.parts = {pointer<const bf16>(query), pointer<const bf16>(key), pointer<const bf16>(value)},
                       .joined = pointer<bf16>(rows),
                       .copies = copies_beside(rows),
                       .partials = pointer<float>(strips),
                       .N = B * T,
                       .C = C},
                      stream_for(dq));
    return {together, strips};
  }
  with_type(dq.scalar_type(), [&]<class Number>() {
    strips = at::empty({kernels::column_strips<Number>(B * T, 3 * C), 3 * C}, dq.options().dtype(at::kFloat));
    kernels::join<Number>(
        {.parts = {pointer<const Number>(query), pointer<const Number>(key), pointer<const Number>(value)},
         .joined = pointer<Number>(together),
         .partials = pointer<float>(strips),
         .N = B * T,
         .C = C},
        stream_for(dq));
  });
  return {together, strips};
}

struct JoinedThirds : torch::autograd::Function<JoinedThirds> {
  static variable_list forward(AutogradContext* context, const Tensor& qkv, const Tensor& bias, bool fp8,
                               Gradients* gradients) {
    context->saved_data["fp8"] = fp8;
    context->save_for_backward({bias});
    context->saved_data["gradients"] = handle_of(gradients);
    return qkv.chunk(3, -1);
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const Node node("model::qkv_gradient");
    const Tensor bias = context->get_saved_variables()[0];
    auto* gradients = from_handle<Gradients>(context->saved_data["gradients"]);
    const Gradients::Place place = place_for(gradients, bias);
    const auto [d_qkv, strips] = joined(upstream[0], upstream[1], upstream[2], context->saved_data["fp8"].toBool());
    add_up(gradients, strips, place);
    return {d_qkv, gradients == nullptr ? place.buffer : Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

std::array<Tensor, 3> joined_thirds(const Tensor& qkv, const Tensor& bias, bool fp8, Gradients* gradients) {
  const variable_list thirds = JoinedThirds::apply(qkv, bias, fp8, gradients);
  return {thirds[0], thirds[1], thirds[2]};
}

}  // namespace model
