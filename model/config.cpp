#include "model/config.h"

#include "files/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

namespace model {
namespace {

// As others call GPT-2's, with "gpt2-" before it or without.
constexpr std::pair<const char*, const char*> common_names[] = {{"small", "gpt2-124m"},
                                                                {"gpt2", "gpt2-124m"},
                                                                {"medium", "gpt2-355m"},
                                                                {"large", "gpt2-774m"},
                                                                {"xl", "gpt2-1558m"}};

// The two small ones keep the real vocabulary, so that they read the same token files and pad to the same rows.
const std::array<Config, 6> presets{{
    {"gpt2-124m", 12, 12, 768, 1024},
    {"gpt2-355m", 24, 16, 1024, 1024},
    {"gpt2-774m", 36, 20, 1280, 1024},
    {"gpt2-1558m", 48, 25, 1600, 1024},
    {"gpt2-18m", 6, 4, 256, 1024},
    {"tiny", 2, 2, 32, 64},
}};

}  // namespace

int64_t Config::parameters() const {
  const int64_t C = n_embd;
  const int64_t layer_norm = 2 * C;
  const int64_t attention = C * 3 * C + 3 * C + C * C + C;
  const int64_t mlp = C * 4 * C + 4 * C + 4 * C * C + C;
  return vocabulary * C + n_positions * C + n_layer * (2 * layer_norm + attention + mlp) + layer_norm;
}

double Config::flops_per_token(int64_t T) const {
  return 6.0 * static_cast<double>(parameters() - extra_positions * n_embd) +
         6.0 * static_cast<double>(n_layer * n_embd * T);
}

Config preset(const std::string& name) {
  for (const Config& config : presets) {
    if (config.name == name) return config;
  }
  const std::string what =
      fmt::format("unknown model \"{}\"; the known models are {}", name, fmt::join(preset_names(), ", "));
  for (const auto& [other, ours] : common_names) {
    if (name == other || name == std::string("gpt2-") + other) {
      throw std::invalid_argument(fmt::format("{}; did you mean {}?", what, ours));
    }
  }
  throw std::invalid_argument(files::or_nearest(what, name, preset_names()));
}

Config with_positions(Config config, int64_t positions) {
  const int64_t more = std::max<int64_t>(0, positions - config.n_positions);
  config.n_positions += more;
  config.extra_positions += more;
  return config;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  names.reserve(std::size(presets));
  for (const Config& config : presets) names.push_back(config.name);
  return names;
}

}  // namespace model
