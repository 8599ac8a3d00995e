#include "model/ops.h"

#include "model/precision.h"

#include <ATen/autocast_mode.h>

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
      .qkv =
          [](const Tensor& x, const Tensor& weight, const Tensor& bias) {
            const std::vector<Tensor> thirds = at::linear(x, weight, bias).split(x.size(-1), -1);
            return std::array{thirds[0], thirds[1], thirds[2]};
          },
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

namespace {

// The residual stream in 16 bits: the embedding gives 16 bits, and LayerNorm reads and writes them (autocast alone
// would make LayerNorm float32). On a CPU ATen then also adds up the gradients of weight and bias in 16 bits, row by
// row.
void keep_residual_in(at::ScalarType type, Ops& ops) {
  ops.embed = [embed = ops.embed, type](const Tensor& tokens, const Tensor& wte, const Tensor& wpe) {
    return embed(tokens, wte, wpe).to(type);
  };
  ops.layer_norm = [](const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
    const auto cast = [&](const Tensor& t) {
      return at::autocast::cached_cast(x.scalar_type(), t, x.device().type());  // autocast's own, cache and all
    };
    const Tensor scale = cast(weight), shift = cast(bias);
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    return at::layer_norm(x, {x.size(-1)}, scale, shift, eps);
  };
}

// Each with its third of the packed weight. In the backward pass the gradients of the thirds are put together.
std::array<Tensor, 3> qkv_in_three_products(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const std::vector<Tensor> weights = weight.chunk(3), biases = bias.chunk(3);
  const auto product = [&](size_t i) { return at::linear(x, weights[i], biases[i]); };
  return {product(0), product(1), product(2)};
}

}  // namespace

Ops ops_for(const Recipe& recipe) {
  Ops ops = reference_ops();
  if (recipe.qkv_products == QkvProducts::three) ops.qkv = qkv_in_three_products;
  if (recipe.attention != Attention::manual) ops.attention = sdpa_attention();
  if (recipe.cross_entropy == CrossEntropy::in_place) ops.cross_entropy = in_place_cross_entropy();
  if (recipe.residual == Residual::autocast) keep_residual_in(scalar_type(recipe.autocast), ops);
  return ops;
}

}  // namespace model
