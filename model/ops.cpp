#include "model/ops.h"

#include "ablations/techniques/cpu/fused.h"
#include "ablations/techniques/products/products.h"
#include "model/precision.h"
#include "model/step_memory.h"

#include <ATen/autocast_mode.h>

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

decltype(Ops::qkv) qkv_in_one_product(const decltype(Ops::linear)& linear) {
  return [linear](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const std::vector<Tensor> thirds = linear(x, weight, bias).split(x.size(-1), -1);
    return std::array{thirds[0], thirds[1], thirds[2]};
  };
}

// Each with its third of the packed weight. In the backward pass the gradients of the thirds are put together.
decltype(Ops::qkv) qkv_in_three_products(const decltype(Ops::linear)& linear) {
  return [linear](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const std::vector<Tensor> weights = weight.chunk(3), biases = bias.chunk(3);
    const auto product = [&](size_t i) { return linear(x, weights[i], biases[i]); };
    return std::array{product(0), product(1), product(2)};
  };
}

}  // namespace

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

constexpr bool built_with_cuda_kernels = LADDER_CUDA_KERNELS;  // 0 or 1

void fuse_on_cpu(const Recipe& recipe, Gradients* gradients, Ops& ops) {
  if (recipe.norm == Norm::fused) ops.add_norm = fused_add_norm(gradients);
  if (recipe.mlp == Mlp::fused) ops.mlp = fused_mlp(recipe.products, gradients);
  if (recipe.cross_entropy == CrossEntropy::fused) ops.head_loss = fused_head_loss(recipe.products, gradients);
}

void fuse_on_cuda(const Recipe& recipe, Gradients* gradients, Ops& ops) {
  if constexpr (built_with_cuda_kernels) {
    if (gradients != nullptr) ops.linear = cuda_linear(gradients);
    if (recipe.norm == Norm::fused) ops.add_norm = cuda_add_norm(gradients);
    if (recipe.mlp == Mlp::fused) ops.mlp = cuda_mlp(gradients);
    if (recipe.cross_entropy == CrossEntropy::fused) {
      ops.head_loss = cuda_head_loss(cuda_head_loss_chunk_bytes, gradients);
    }
  } else {
    TORCH_CHECK(recipe.norm != Norm::fused && recipe.mlp != Mlp::fused && recipe.cross_entropy != CrossEntropy::fused,
                "recipe: device cuda with norm, mlp or cross_entropy fused needs a program that was built with its "
                "CUDA kernels");
  }
}

// After everything else that makes the embedding what it is: its backward pass then reads the stream's own type.
void write_gradient_of_embedding(const Recipe& recipe, Gradients& gradients, Ops& ops) {
  if (recipe.device == Device::cpu) {
    ops.embed = embed_into(gradients, embedding_gradient, ops.embed);
  } else if constexpr (built_with_cuda_kernels) {
    ops.embed = embed_into(gradients, cuda_embedding_gradient, ops.embed);
  }
}

}  // namespace

std::vector<TimedProduct> timed_products() {
  if constexpr (built_with_cuda_kernels) {
    return cuda_timed_products();
  } else {
    return {};
  }
}

Ops ops_for(const Recipe& recipe, Gradients* gradients) {
  Ops ops = reference_ops();
  const bool packed = recipe.products == Products::packed;
  if (packed || gradients != nullptr) ops.linear = own_linear(recipe.products, gradients);
  if (packed) ops.head = packed_head();
  recipe.device == Device::cuda ? fuse_on_cuda(recipe, gradients, ops) : fuse_on_cpu(recipe, gradients, ops);
  const bool three = recipe.qkv_products == QkvProducts::three;
  ops.qkv = three ? qkv_in_three_products(ops.linear) : qkv_in_one_product(ops.linear);
  if (recipe.attention == Attention::packed) {
    ops.self_attention = packed_self_attention();
  } else if (recipe.attention != Attention::manual) {
    ops.attention = sdpa_attention();
  }
  if (recipe.cross_entropy == CrossEntropy::in_place) ops.cross_entropy = in_place_cross_entropy();
  if (recipe.residual == Residual::autocast) keep_residual_in(scalar_type(recipe.autocast), ops);
  if (gradients != nullptr) write_gradient_of_embedding(recipe, *gradients, ops);
  return ops;
}

}  // namespace model
