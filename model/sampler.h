// Text from a trained model, token by token.
//
// The keys and values of tokens that have been read are kept (the KV cache). So each new token costs one row of every
// matrix product. The model is gpt2.cpp's; its table of operations differs. In it the embedding begins at the first new
// position, attention also sees what was kept, and the head computes the last row only.
#pragma once

#include "model/gpt2.h"
#include "model/ops.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace model {

// How a token is drawn. The three apply in this order, as in Hugging Face's generate.
struct Sampling {
  double temperature = 1;  // divides the logits; 0: always the likeliest token
  int64_t top_k = 0;       // only the k likeliest (Fan et al. 2018); 0: all
  double top_p = 1;        // only the fewest likeliest that have this probability together (Holtzman et al. 2020)
};

// Chooses a token by its logits, one for each token. The result depends on the arguments alone. Temperature 0 takes
// nothing from the generator, any other takes one number. Of equal logits the lower token counts as likelier; -inf is
// never drawn. Throws std::invalid_argument for a setting out of range, and for logits that are NaN, +inf or all -inf.
uint16_t choose_token(std::span<const float> logits, const Sampling& sampling, std::mt19937_64& generator);

// The model as a reader of one text, from left to right.
class Decoder {
 public:
  // `model` must outlive it; `ops` is copied. The operations run under the caller's AutocastScope, as in a step.
  Decoder(const GPT2& model, const Ops& ops);
  Decoder(const Decoder&) = delete;  // its operations point into it
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() = default;

  // Reads one or more tokens that follow those read before. Returns the logits of the token after them, (vocabulary)
  // float32 on the CPU. Throws std::invalid_argument if there are none, or more than positions left.
  [[nodiscard]] at::Tensor read(std::span<const uint16_t> tokens);

  // How many tokens have been read since clear().
  [[nodiscard]] int64_t length() const { return length_; }
  void clear() { length_ = 0; }

 private:
  // A layer's keys and values, (1, NH, P, HS) each. Rows up to `length_` are in use.
  struct Kept {
    at::Tensor keys, values;
  };

  // Keeps the layer's new keys and values (1, NH, T, HS). Returns all of them, (1, NH, length_ + T, HS).
  Kept keep(int64_t layer, const at::Tensor& key, const at::Tensor& value);

  const GPT2& model_;
  Ops ops_;
  std::vector<Kept> kept_;  // allocated when the first token is read
  int64_t length_ = 0;
};

struct SampleOptions {
  int64_t tokens = 200;  // at most; end of text may come before
  Sampling sampling = {};
  uint64_t seed = 1;
  bool stop_at_end_of_text = true;
};

// GPT-2 has a vector for each position and none beyond. When all positions are taken, this many of the last tokens are
// read again from position 0 on: half of the positions. Everything before them is forgotten.
inline int64_t tokens_kept_when_full(const Config& config) { return std::max<int64_t>(1, config.n_positions / 2); }

// The tokens that follow `prompt`, without the end of text that ended them. An empty prompt stands for end of text,
// after which a text begins. `on_token` is called with each token as it comes, and ends the text by returning false.
// The same arguments give the same tokens, as far as the model's rounding is the same. Throws std::invalid_argument for
// a prompt of more tokens than positions, and as choose_token does.
std::vector<uint16_t> generate(
    const GPT2& model, const Ops& ops, std::span<const uint16_t> prompt, const SampleOptions& options,
    const std::function<bool(uint16_t)>& on_token = [](uint16_t) { return true; });

}  // namespace model
