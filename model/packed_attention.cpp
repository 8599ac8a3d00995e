// Causal attention that reads query, key and value where their product leaves them, and writes the heads' results where
// the next product reads them. PyTorch's implementations need each head's rows in tensors of their own: the backward
// pass then puts three gradients together, and a matrix product between heads copies its arguments first.
#include "model/fused.h"
#include "model/ops.h"

#include <torch/csrc/autograd/custom_function.h>

namespace model {

using at::Tensor;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct PackedAttention : torch::autograd::Function<PackedAttention> {
  // qkv (B, T, 3C) -> (B, T, C)
  static Tensor forward(AutogradContext* context, const Tensor& qkv, int64_t NH) {
    TORCH_CHECK(qkv.is_cpu(), "packed attention is for a CPU, not ", qkv.device());
    const int64_t B = qkv.size(0), T = qkv.size(1), C = qkv.size(2) / 3;
    const Tensor out = at::empty({B, T, C}, qkv.options());
    const Tensor logsumexp = at::empty({B, NH, T}, qkv.options().dtype(at::kFloat));
    const cpu::Attention call{.type = number_of(qkv),
                              .qkv = qkv.const_data_ptr(),
                              .out = out.mutable_data_ptr(),
                              .logsumexp = logsumexp.mutable_data_ptr<float>(),
                              .T = T,
                              .NH = NH,
                              .HS = C / NH};
    at::parallel_for(0, B * NH, 1, [&](int64_t begin, int64_t end) { cpu::kernels().attention(call, begin, end); });
    context->save_for_backward({qkv, out, logsumexp});
    context->saved_data["NH"] = NH;
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const Node node("model::packed_attention_backward");
    const variable_list saved = context->get_saved_variables();
    const Tensor &qkv = saved[0], &out = saved[1], &logsumexp = saved[2];
    const int64_t NH = context->saved_data["NH"].toInt();
    const int64_t B = qkv.size(0), T = qkv.size(1), C = qkv.size(2) / 3;
    const Tensor d_out = upstream[0].contiguous();
    const Tensor d_qkv = at::empty_like(qkv);
    const cpu::AttentionBackward call{.type = number_of(qkv),
                                      .qkv = qkv.const_data_ptr(),
                                      .out = out.const_data_ptr(),
                                      .d_out = d_out.const_data_ptr(),
                                      .logsumexp = logsumexp.const_data_ptr<float>(),
                                      .d_qkv = d_qkv.mutable_data_ptr(),
                                      .T = T,
                                      .NH = NH,
                                      .HS = C / NH};
    at::parallel_for(0, B * NH, 1,
                     [&](int64_t begin, int64_t end) { cpu::kernels().attention_backward(call, begin, end); });
    return {d_qkv, Tensor()};
  }
};

}  // namespace

decltype(Ops::self_attention) packed_self_attention() {
  return [](const Ops& ops, int64_t layer, const Tensor& x, const Affine& c_attn, int64_t NH) {
    ops.on_part(layer, "c_attn");
    const Tensor qkv = ops.linear(x, c_attn.weight, c_attn.bias).contiguous();
    ops.on_part(layer, "attention");
    const Node node("model::packed_attention");
    return PackedAttention::apply(qkv, NH);
  };
}

}  // namespace model
