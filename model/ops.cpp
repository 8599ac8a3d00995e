#include "model/ops.h"

namespace model {

using at::Tensor;

Ops reference_ops() {
  return Ops{
      .embed =
          [](const Tensor& tokens, const Tensor& wte, const Tensor& wpe) {
            const Tensor positions = at::arange(tokens.size(1), tokens.options());
            return at::embedding(wte, tokens) + at::embedding(wpe, positions);
          },
      .layer_norm = [](const Tensor& x, const Tensor& weight, const Tensor& bias,
                       double eps) { return at::layer_norm(x, {x.size(-1)}, weight, bias, eps); },
      .linear = [](const Tensor& x, const Tensor& weight, const Tensor& bias) { return at::linear(x, weight, bias); },
      .attention = manual_attention(),
      .gelu = [](const Tensor& x) { return at::gelu(x, "tanh"); },
      .residual = [](const Tensor& x, const Tensor& y) { return x + y; },
      .head = [](const Tensor& x, const Tensor& wte) { return at::linear(x, wte); },
      .cross_entropy =
          [](const Tensor& logits, const Tensor& targets) {
            return at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten());
          },
  };
}

Ops ops_for(const Recipe& recipe) {
  Ops ops = reference_ops();
  if (recipe.attention != Attention::manual) ops.attention = sdpa_attention();
  if (recipe.cross_entropy == CrossEntropy::in_place) ops.cross_entropy = in_place_cross_entropy();
  return ops;
}

}  // namespace model
