// The sizes of GPT-2. Everything that is fixed about the model is here or in gpt2.cpp; a recipe cannot change it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace model {

struct Config {
  std::string name;
  int64_t n_layer;
  int64_t n_head;
  int64_t n_embd;               // C
  int64_t n_positions;          // largest T, rows of wpe
  int64_t vocabulary = 50257;   // V, without padding
  int64_t extra_positions = 0;  // how many of n_positions the published model does not have
  static constexpr double layer_norm_eps = 1e-5;
  static constexpr double init_std = 0.02;

  // Trainable parameters. Embedding and head count once, padding rows do not count.
  [[nodiscard]] int64_t parameters() const;

  // FLOPs of forward and backward for one token in a context of T: 6 N + 6 L C T, the causal count of llm.c. Only
  // multiplications and additions of matrix products count. N: all parameters of the published model. Rows of wpe that
  // it does not have would count as products that nobody computes.
  [[nodiscard]] double flops_per_token(int64_t T) const;
};

// gpt2-124m, gpt2-355m, gpt2-774m, gpt2-1558m, gpt2-18m, tiny. Throws std::invalid_argument, which lists these names.
Config preset(const std::string& name);
std::vector<std::string> preset_names();

// The model with that many positions; unchanged if it already has as many.
Config with_positions(Config config, int64_t positions);

}  // namespace model
