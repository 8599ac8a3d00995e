#include "model/sampler.h"

#include "model/tokenizer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace model {

using at::Tensor;

namespace {

void check_sampling(std::span<const float> logits, const Sampling& sampling) {
  const auto require = [](bool good, const std::string& message) {
    if (!good) throw std::invalid_argument(message);
  };
  require(std::isfinite(sampling.temperature) && sampling.temperature >= 0,
          fmt::format("temperature must be a number from 0 on, got {}", sampling.temperature));
  require(sampling.top_k >= 0, fmt::format("top_k must be at least 0, got {}", sampling.top_k));
  require(sampling.top_p > 0 && sampling.top_p <= 1,
          fmt::format("top_p must be above 0 and at most 1, got {}", sampling.top_p));
  const bool numbers = std::ranges::all_of(logits, [](float x) { return x < std::numeric_limits<float>::infinity(); });
  const bool any = std::ranges::any_of(logits, [](float x) { return std::isfinite(x); });
  require(numbers && any, "the weights give logits that are not finite");
}

}  // namespace

uint16_t choose_token(std::span<const float> logits, const Sampling& sampling, std::mt19937_64& generator) {
  check_sampling(logits, sampling);
  const auto greatest = std::ranges::max_element(logits);  // the first of equals
  if (sampling.temperature == 0) return static_cast<uint16_t>(greatest - logits.begin());

  std::vector<uint16_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), uint16_t{0});
  const bool cuts = sampling.top_k > 0 && static_cast<size_t>(sampling.top_k) < tokens.size();
  const auto last = cuts ? tokens.begin() + sampling.top_k : tokens.end();
  if (cuts || sampling.top_p < 1) {
    std::partial_sort(tokens.begin(), last, tokens.end(), [&](uint16_t a, uint16_t b) {
      return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
    });
    tokens.erase(last, tokens.end());
  }
  std::vector<double> weights;  // probabilities, up to a factor
  weights.reserve(tokens.size());
  for (const uint16_t token : tokens) {
    weights.push_back(std::exp((static_cast<double>(logits[token]) - *greatest) / sampling.temperature));
  }
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (sampling.top_p < 1) {
    double sum = 0;
    size_t count = 0;
    while (count < weights.size() && sum < sampling.top_p * total) sum += weights[count++];
    weights.resize(count);
    total = sum;
  }

  // Uniform in [0, 1), the same with every standard library.
  const double uniform = static_cast<double>(generator() >> 11) * 0x1p-53;
  double left = uniform * total;
  size_t chosen = 0;
  for (size_t i = 0; i < weights.size() && left >= 0; ++i) {
    if (weights[i] == 0) continue;
    chosen = i;
    left -= weights[i];
  }
  return tokens[chosen];
}

Decoder::Decoder(const GPT2& model, const Ops& ops)
    : model_(model), ops_(ops), kept_(static_cast<size_t>(model.config().n_layer)) {
  ops_.embed = [this, embed = ops.embed](const Tensor& tokens, const Tensor& wte, const Tensor& wpe) {
    return embed(tokens, wte, wpe.narrow(0, length_, tokens.size(1)));
  };
  // The table's own attention has no place for keys without queries.
  ops_.self_attention = [this, attend = manual_attention()](const Ops& table, int64_t layer, const Tensor& x,
                                                            const Affine& c_attn, int64_t NH) {
    table.on_part(layer, "c_attn");
    const auto [query, key, value] = table.qkv(x, c_attn.weight, c_attn.bias);  // (1, T, C) each
    table.on_part(layer, "attention");
    const int64_t T = x.size(1), HS = x.size(2) / NH;
    const auto heads = [&](const Tensor& t) { return t.reshape({1, T, NH, HS}).transpose(1, 2); };
    const Kept all = keep(layer, heads(key), heads(value));
    return attend(heads(query), all.keys, all.values).transpose(1, 2).reshape(x.sizes());
  };
  ops_.head = [head = ops.head](const Tensor& x, const Tensor& wte) {
    return head(x.narrow(1, x.size(1) - 1, 1), wte);
  };
}

Decoder::Kept Decoder::keep(int64_t layer, const Tensor& key, const Tensor& value) {
  Kept& kept = kept_[static_cast<size_t>(layer)];
  if (!kept.keys.defined()) {
    const std::vector<int64_t> shape{1, key.size(1), model_.config().n_positions, key.size(3)};
    kept = {at::empty(shape, key.options()), at::empty(shape, value.options())};
  }
  const int64_t T = key.size(2);
  kept.keys.narrow(2, length_, T).copy_(key);
  kept.values.narrow(2, length_, T).copy_(value);
  return {kept.keys.narrow(2, 0, length_ + T), kept.values.narrow(2, 0, length_ + T)};
}

Tensor Decoder::read(std::span<const uint16_t> tokens) {
  const int64_t T = std::ssize(tokens), positions_left = model_.config().n_positions - length_;
  if (T < 1 || T > positions_left) {
    throw std::invalid_argument(fmt::format("tokens to read must be between 1 and {}, got {}", positions_left, T));
  }
  const at::NoGradGuard no_grad;
  const Tensor row = at::empty({1, T}, at::kLong);
  std::ranges::copy(tokens, row.mutable_data_ptr<int64_t>());
  const Tensor logits = model_.logits(ops_, row.to(model_.parameters().front().tensor.device()));  // (1, 1, rows)
  length_ += T;
  return logits.flatten().narrow(0, 0, model_.config().vocabulary).to(at::kCPU, at::kFloat).contiguous();
}

std::vector<uint16_t> generate(const GPT2& model, const Ops& ops, std::span<const uint16_t> prompt,
                               const SampleOptions& options, const std::function<bool(uint16_t)>& on_token) {
  const int64_t positions = model.config().n_positions;
  if (std::ssize(prompt) > positions) {
    throw std::invalid_argument(fmt::format("the prompt must have at most {} tokens, the positions of {}, got {}",
                                            positions, model.config().name, prompt.size()));
  }
  std::vector<uint16_t> text(prompt.begin(), prompt.end());
  if (text.empty()) text.push_back(Tokenizer::end_of_text);
  Decoder decoder(model, ops);
  std::mt19937_64 generator(options.seed);
  std::vector<uint16_t> sampled;
  auto unread = std::ssize(text);
  while (std::ssize(sampled) < options.tokens) {
    if (decoder.length() + unread > positions) {
      decoder.clear();
      unread = tokens_kept_when_full(model.config());
    }
    const Tensor logits = decoder.read(std::span(text).last(static_cast<size_t>(unread)));
    const uint16_t token = choose_token({logits.const_data_ptr<float>(), static_cast<size_t>(logits.numel())},
                                        options.sampling, generator);
    if (token == Tokenizer::end_of_text && options.stop_at_end_of_text) break;
    text.push_back(token);
    sampled.push_back(token);
    unread = 1;
    if (!on_token(token)) break;
  }
  return sampled;
}

}  // namespace model
