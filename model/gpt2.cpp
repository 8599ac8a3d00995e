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

void GPT2::split_weights(bool biases) {
  for (Parameter& parameter : parameters_) {
    const bool is_matrix = parameter.tensor.dim() == 2 && parameter.name != "wpe.weight";
    const bool is_bias = parameter.tensor.dim() == 1 && parameter.name.find("ln_") == std::string::npos;
    if (!is_matrix && !(biases && is_bias)) continue;
    const Tensor weight = parameter.tensor.detach();
    parameter.tensor.set_data(at::empty(weight.sizes(), weight.options().dtype(at::kBFloat16)));
    parameter.remainder = at::empty(weight.sizes(), weight.options().dtype(at::kShort));
    split_weight(parameter, weight);
  }
}

Tensor GPT2::features(const Ops& ops, const Tensor& tokens) const {
  constexpr int64_t outside = -1;
  const auto add_norm = [&](const Ops::Place& place, const Tensor& x, const Tensor& y, const Affine& ln) {
    return ops.add_norm(ops, place, x, y, ln, Config::layer_norm_eps);
  };
  const auto bias_before_add_norm = [&](const Affine& linear) {
    return ops.add_norm_makes_bias_gradient ? linear.bias.detach() : linear.bias;
  };
  ops.on_part(outside, "embed");
  Tensor x = ops.embed(tokens, wte_, wpe_);  // (B, T, C), the residual stream
  Tensor y, bias;                            // (B, T, C), what is to be added to it; of the layer that made y
  for (int64_t layer = 0; layer < config_.n_layer; ++layer) {
    const Block& w = blocks_[static_cast<size_t>(layer)];
    const auto [x1, n1] = add_norm({layer, "ln_1", layer - 1, bias}, x, y, w.ln_1);
    const Tensor attended = ops.self_attention(ops, layer, n1, w.c_attn, config_.n_head);
    ops.on_part(layer, "attn_proj");
    const auto [x2, n2] = add_norm({layer, "ln_2", layer, w.attn_proj.bias}, x1,
                                   ops.linear(attended, w.attn_proj.weight, bias_before_add_norm(w.attn_proj)), w.ln_2);
    y = ops.mlp(ops, layer, n2, w.c_fc, {w.mlp_proj.weight, bias_before_add_norm(w.mlp_proj)});
    bias = w.mlp_proj.bias;
    x = x2;
  }
  return add_norm({outside, "ln_f", config_.n_layer - 1, bias}, x, y, ln_f_).normalized;
}

Tensor GPT2::logits(const Ops& ops, const Tensor& tokens) const {
  const Tensor x = features(ops, tokens);
  ops.on_part(-1, "head");
  return ops.head(x, wte_);
}

Tensor GPT2::loss(const Ops& ops, const Tensor& tokens, const Tensor& targets) const {
  return ops.head_loss(ops, features(ops, tokens), wte_, targets, config_.vocabulary);
}

}  // namespace model
