#include "model/ops.h"

#include <cmath>
#include <limits>
#include <vector>

namespace model {

using at::Tensor;

namespace {

Ops::Normed add_norm(const Ops& ops, const Ops::Place& place, const Tensor& x, const Tensor& y, const Affine& norm,
                     double eps) {
  Tensor sum = x;
  if (y.defined()) {
    ops.on_part(place.added_from, "residual");
    sum = ops.residual(x, y);
  }
  ops.on_part(place.layer, place.part);
  return {sum, ops.layer_norm(sum, norm.weight, norm.bias, eps)};
}

Tensor self_attention(const Ops& ops, int64_t layer, const Tensor& x, const Affine& c_attn, int64_t NH) {
  const int64_t B = x.size(0), T = x.size(1), C = x.size(2);
  ops.on_part(layer, "c_attn");
  const auto [query, key, value] = ops.qkv(x, c_attn.weight, c_attn.bias);  // (B, T, C) each
  ops.on_part(layer, "attention");
  const auto heads = [&](const Tensor& t) { return t.view({B, T, NH, C / NH}).transpose(1, 2); };
  const Tensor attended = ops.attention(heads(query), heads(key), heads(value));  // (B, NH, T, HS)
  return attended.transpose(1, 2).reshape({B, T, C});
}

Tensor mlp(const Ops& ops, int64_t layer, const Tensor& x, const Affine& c_fc, const Affine& c_proj) {
  ops.on_part(layer, "c_fc");
  const Tensor fc = ops.linear(x, c_fc.weight, c_fc.bias);  // (B, T, 4C)
  ops.on_part(layer, "gelu");
  const Tensor hidden = ops.gelu(fc);
  ops.on_part(layer, "mlp_proj");
  return ops.linear(hidden, c_proj.weight, c_proj.bias);
}

Tensor head_loss(const Ops& ops, const Tensor& x, const Tensor& wte, const Tensor& targets, int64_t /*vocabulary*/) {
  constexpr int64_t outside = -1;
  ops.on_part(outside, "head");
  const Tensor logits = ops.head(x, wte);
  ops.on_part(outside, "cross_entropy");
  return ops.cross_entropy(logits, targets);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) { return at::linear(x, weight, bias); }

}  // namespace

decltype(Ops::qkv) qkv_in_one_product(const decltype(Ops::linear)& linear) {
  return [linear](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const std::vector<Tensor> thirds = linear(x, weight, bias).split(x.size(-1), -1);
    return std::array{thirds[0], thirds[1], thirds[2]};
  };
}

Ops reference_ops() {
  return Ops{
      .embed =
          [](const Tensor& tokens, const Tensor& wte, const Tensor& wpe) {
            const Tensor positions = at::arange(tokens.size(1), tokens.options());
            return at::embedding(wte, tokens) + at::embedding(wpe, positions);
          },
      .layer_norm = [](const Tensor& x, const Tensor& weight, const Tensor& bias,
                       double eps) { return at::layer_norm(x, {x.size(-1)}, weight, bias, eps); },
      .linear = linear,
      .qkv = qkv_in_one_product(linear),
      .attention = manual_attention(),
      .gelu = [](const Tensor& x) { return at::gelu(x, "tanh"); },
      .residual = [](const Tensor& x, const Tensor& y) { return x + y; },
      .head = [](const Tensor& x, const Tensor& wte) { return at::linear(x, wte); },
      .cross_entropy =
          [](const Tensor& logits, const Tensor& targets) {
            return at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten());
          },
      .add_norm = add_norm,
      .self_attention = self_attention,
      .mlp = mlp,
      .head_loss = head_loss,
  };
}

// Causal attention with its T x T matrix in memory.

using at::Tensor;

decltype(Ops::attention) manual_attention() {
  return [future = Tensor()](const Tensor& q, const Tensor& k, const Tensor& v) mutable {
    const int64_t T = q.size(2), keys = k.size(2);  // the queries are the last T keys'
    if (!future.defined() || future.size(0) != T || future.size(1) != keys) {
      future = at::ones({T, keys}, q.options().dtype(at::kBool)).triu(1 + keys - T);
    }
    const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(3)));
    const Tensor scores = at::matmul(q, k.transpose(-2, -1)) * scale;  // (B, NH, T, keys)
    const Tensor causal = scores.masked_fill(future, -std::numeric_limits<float>::infinity());
    return at::matmul(at::softmax(causal, -1), v);
  };
}

}  // namespace model
