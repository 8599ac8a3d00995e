#include "model/gpt2.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace model {

using at::Tensor;

GPT2::GPT2(const Config& config, int64_t vocabulary_rows, uint64_t seed, at::Device device) : config_(config) {
  if (vocabulary_rows < config.vocabulary) {
    throw std::invalid_argument(fmt::format("vocabulary_rows {} is less than the {} tokens of {}", vocabulary_rows,
                                            config.vocabulary, config.name));
  }
  const int64_t C = config.n_embd;
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const auto normal = [&](at::IntArrayRef shape, double std) { return at::empty(shape).normal_(0.0, std, generator); };

  const double residual_std = Config::init_std / std::sqrt(2.0 * static_cast<double>(config.n_layer));
  const auto layer_norm = [&](const std::string& name) {
    return Affine{add(name + ".weight", at::ones({C}), device), add(name + ".bias", at::zeros({C}), device)};
  };
  const auto linear = [&](const std::string& name, int64_t in, int64_t out, double std) {
    return Affine{add(name + ".weight", normal({out, in}, std), device), add(name + ".bias", at::zeros({out}), device)};
  };

  // Padding rows and extra positions come from separate generators, so that they do not change any other weight.
  const auto embedding = [&](int64_t rows, int64_t more, uint64_t seed_of_more) {
    Tensor published = normal({rows, C}, Config::init_std);
    if (more == 0) return published;
    at::Generator own = at::detail::createCPUGenerator(seed_of_more);
    return at::cat({published, at::empty({more, C}).normal_(0.0, Config::init_std, own)});
  };
  wte_ = add("wte.weight", embedding(config.vocabulary, vocabulary_rows - config.vocabulary, seed + 1), device);
  wpe_ = add("wpe.weight", embedding(config.n_positions - config.extra_positions, config.extra_positions, seed + 2),
             device);
  for (int64_t layer = 0; layer < config.n_layer; ++layer) {
    const std::string h = fmt::format("h.{}.", layer);
    blocks_.push_back(Block{.ln_1 = layer_norm(h + "ln_1"),
                            .c_attn = linear(h + "attn.c_attn", C, 3 * C, Config::init_std),
                            .attn_proj = linear(h + "attn.c_proj", C, C, residual_std),
                            .ln_2 = layer_norm(h + "ln_2"),
                            .c_fc = linear(h + "mlp.c_fc", C, 4 * C, Config::init_std),
                            .mlp_proj = linear(h + "mlp.c_proj", 4 * C, C, residual_std)});
  }
  ln_f_ = layer_norm("ln_f");
}

Tensor GPT2::add(const std::string& name, const Tensor& initial, at::Device device) {
  Tensor parameter = initial.to(device).set_requires_grad(true);
  parameters_.push_back({name, parameter});
  return parameter;
}

Tensor GPT2::block(const Ops& ops, int64_t layer, const Tensor& input) const {
  const Block& w = blocks_[static_cast<size_t>(layer)];
  const int64_t B = input.size(0), T = input.size(1), C = config_.n_embd, NH = config_.n_head;
  const auto normalized = [&](std::string_view part, const Affine& ln, const Tensor& x) {
    ops.on_part(layer, part);
    return ops.layer_norm(x, ln.weight, ln.bias, Config::layer_norm_eps);
  };
  const auto linear = [&](std::string_view part, const Affine& affine, const Tensor& x) {
    ops.on_part(layer, part);
    return ops.linear(x, affine.weight, affine.bias);
  };
  const auto qkv = [&](const Tensor& x) {
    ops.on_part(layer, "c_attn");
    return ops.qkv(x, w.c_attn.weight, w.c_attn.bias);
  };
  const auto residual = [&](const Tensor& x, const Tensor& y) {
    ops.on_part(layer, "residual");
    return ops.residual(x, y);
  };

  const auto [query, key, value] = qkv(normalized("ln_1", w.ln_1, input));  // (B, T, C) each
  ops.on_part(layer, "attention");
  const auto heads = [&](const Tensor& x) { return x.view({B, T, NH, C / NH}).transpose(1, 2); };
  const Tensor attended = ops.attention(heads(query), heads(key), heads(value));  // (B, NH, T, HS)
  const Tensor joined = attended.transpose(1, 2).reshape({B, T, C});
  const Tensor x = residual(input, linear("attn_proj", w.attn_proj, joined));

  const Tensor fc = linear("c_fc", w.c_fc, normalized("ln_2", w.ln_2, x));  // (B, T, 4C)
  ops.on_part(layer, "gelu");
  const Tensor hidden = ops.gelu(fc);
  return residual(x, linear("mlp_proj", w.mlp_proj, hidden));
}

Tensor GPT2::logits(const Ops& ops, const Tensor& tokens) const {
  constexpr int64_t outside = -1;
  ops.on_part(outside, "embed");
  Tensor x = ops.embed(tokens, wte_, wpe_);  // (B, T, C)
  for (int64_t layer = 0; layer < config_.n_layer; ++layer) x = block(ops, layer, x);
  ops.on_part(outside, "ln_f");
  x = ops.layer_norm(x, ln_f_.weight, ln_f_.bias, Config::layer_norm_eps);
  ops.on_part(outside, "head");
  return ops.head(x, wte_);
}

Tensor GPT2::loss(const Ops& ops, const Tensor& tokens, const Tensor& targets) const {
  const Tensor scores = logits(ops, tokens);
  ops.on_part(-1, "cross_entropy");
  return ops.cross_entropy(scores, targets);
}

}  // namespace model
