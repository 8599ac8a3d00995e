// Causal attention that reads query, key and value where their product leaves them, and writes the heads' results where
// the next product reads them. Written-out attention copies the arguments of its products first.
//
// On a CPU it is a loop of our own, which also writes the three gradients side by side. On a GPU it is PyTorch's
// FlashAttention on views. Its backward pass could write into given tensors (mha_bwd in flash_api.h). But libtorch_cuda
// exports only that header's forward pass, so three gradients are put together afterwards.
#include "ablations/techniques/cpu/kernels.h"
#include "ablations/techniques/cpu/thread_sums.h"
#include "ablations/techniques/operations.h"

#include <torch/csrc/autograd/custom_function.h>

#include <array>

namespace model {

using at::Tensor;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct PackedAttention : torch::autograd::Function<PackedAttention> {
  // qkv (B, T, 3C) -> (B, T, C)
  static Tensor forward(AutogradContext* context, const Tensor& qkv, int64_t NH) {
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

// The same on a GPU, in bfloat16 or float16. Nothing here waits for the device or draws random numbers. With
// deterministic algorithms PyTorch takes the backward pass that adds in a fixed order.
struct FlashPackedAttention : torch::autograd::Function<FlashPackedAttention> {
  static constexpr double no_dropout = 0;

  // Query, key and value (B, T, NH, HS), which lie in qkv (B, T, 3C).
  static std::array<Tensor, 3> thirds(const Tensor& qkv, int64_t NH) {
    const int64_t B = qkv.size(0), T = qkv.size(1), HS = qkv.size(2) / (3 * NH);
    const Tensor heads = qkv.view({B, T, 3, NH, HS});
    return {heads.select(2, 0), heads.select(2, 1), heads.select(2, 2)};
  }

  // qkv (B, T, 3C) -> (B, T, NH, HS)
  static Tensor forward(AutogradContext* context, const Tensor& qkv, int64_t NH) {
    const int64_t T = qkv.size(1), HS = qkv.size(2) / (3 * NH);
    TORCH_CHECK(HS % 8 == 0, "packed attention on a GPU needs heads of a multiple of 8 numbers, got ", HS);
    const auto [query, key, value] = thirds(qkv, NH);
    // `seed` and `offset` are dropout's; without dropout they are empty.
    const auto [out, logsumexp, seed, offset, no_mask] =
        at::_flash_attention_forward(query, key, value, /*cum_seq_q=*/{}, /*cum_seq_k=*/{}, T, T, no_dropout,
                                     /*is_causal=*/true, /*return_debug_mask=*/false);
    context->save_for_backward({qkv, out, logsumexp, seed, offset});
    context->saved_data["NH"] = NH;
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const Node node("model::packed_attention_backward");
    const variable_list saved = context->get_saved_variables();
    const Tensor &qkv = saved[0], &out = saved[1], &logsumexp = saved[2], &seed = saved[3], &offset = saved[4];
    const int64_t T = qkv.size(1);
    const auto [query, key, value] = thirds(qkv, context->saved_data["NH"].toInt());
    const auto [dq, dk, dv] = at::_flash_attention_backward(upstream[0], query, key, value, out, logsumexp,
                                                            /*cum_seq_q=*/{}, /*cum_seq_k=*/{}, T, T, no_dropout,
                                                            /*is_causal=*/true, seed, offset);
    return {at::cat({dq.flatten(2), dk.flatten(2), dv.flatten(2)}, -1), Tensor()};
  }
};

}  // namespace

void install_attention(const Recipe& recipe, Gradients* /*gradients*/, Ops& table) {
  if (recipe.attention == Attention::manual) return;
  if (recipe.attention != Attention::packed) {
    // SdpaScope (model/precision.h) decides which implementation it is.
    table.attention = [](const Tensor& q, const Tensor& k, const Tensor& v) {
      return at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true);
    };
    return;
  }
  table.self_attention = [](const Ops& ops, int64_t layer, const Tensor& x, const Affine& c_attn, int64_t NH) {
    ops.on_part(layer, "c_attn");
    const Tensor qkv = ops.linear(x, c_attn.weight, c_attn.bias).contiguous();
    ops.on_part(layer, "attention");
    const Node node("model::packed_attention");
    return qkv.is_cuda() ? FlashPackedAttention::apply(qkv, NH).flatten(2) : PackedAttention::apply(qkv, NH);
  };
}

}  // namespace model
