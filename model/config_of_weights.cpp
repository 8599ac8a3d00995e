// A wrong number of heads gives wrong text and no error: it is looked up, never guessed.
#include "model/config_of_weights.h"

#include "files/json_file.h"
#include "files/printable.h"
#include "model/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace model {

namespace {

using Shape = std::vector<int64_t>;

bool has_layers_of(const Config& a, const Config& b) { return a.n_layer == b.n_layer && a.n_embd == b.n_embd; }

// What the config.json beside the file says; nothing if there is none, or if it says nothing of heads. It may ask for
// what this program's GPT-2 does not do.
std::optional<int64_t> heads_by_config_json(const std::filesystem::path& weights, const Config& config) {
  const std::filesystem::path file = weights.parent_path() / "config.json";
  if (!std::filesystem::exists(file)) return std::nullopt;
  const files::Json document = files::read_any_json(file);
  const files::Json heads = files::field_or_null(document, "n_head");
  if (heads.is_null()) return std::nullopt;
  const auto require = [&](bool good, const std::string& name, const std::string& rule, const files::Json& got) {
    if (good) return;
    throw std::invalid_argument(fmt::format("{}: \"{}\" must {}, got {}", file.string(), name, rule,
                                            files::shortened(files::printable(got.dump()), 60)));
  };
  const files::Json needed = {{"model_type", "gpt2"},
                              {"n_layer", config.n_layer},
                              {"n_embd", config.n_embd},
                              {"activation_function", "gelu_new"},
                              {"layer_norm_epsilon", Config::layer_norm_eps},
                              {"scale_attn_weights", true},
                              {"scale_attn_by_inverse_layer_idx", false},
                              {"add_cross_attention", false}};
  for (const auto& [name, value] : needed.items()) {
    const files::Json got = document.value(name, value);
    require(got == value, name, "be " + value.dump(), got);
  }
  const uint64_t count = heads.is_number_unsigned() ? heads.get<uint64_t>() : 0;
  const bool fits = count > 0 && static_cast<uint64_t>(config.n_embd) % count == 0;
  require(fits, "n_head", fmt::format("divide the width {}", config.n_embd), heads);
  return static_cast<int64_t>(count);
}

}  // namespace

Config config_of_weights(const std::filesystem::path& file, const std::string& named) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(fmt::format("{}: {}", file.string(), why));
  };
  constexpr std::string_view before_names = "transformer.";
  std::map<std::string, Shape> shapes;
  int64_t numbers = 0;
  for (const auto& [name, shape] : read_safetensors_shapes(file)) {
    numbers += std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    shapes[name.starts_with(before_names) ? name.substr(before_names.size()) : name] = shape;
  }
  const auto matrix = [&](const std::string& name) {
    const auto found = shapes.find(name);
    if (found == shapes.end()) refuse(fmt::format("not GPT-2's weights: tensor \"{}\" is missing", name));
    const Shape& shape = found->second;
    if (shape.size() != 2 || std::ranges::min(shape) < 1) {
      refuse(fmt::format("tensor \"{}\" must be a matrix, got shape ({})", name, fmt::join(shape, ", ")));
    }
    return shape;
  };
  const Shape wte = matrix("wte.weight"), wpe = matrix("wpe.weight");
  Config config{.name = "this model", .n_layer = 0, .n_head = 0, .n_embd = wte[1], .n_positions = wpe[0]};
  if (wte[0] != config.vocabulary) {
    refuse(fmt::format("tensor \"wte.weight\" must have a row for each of GPT-2's {} tokens, got {}", config.vocabulary,
                       wte[0]));
  }
  while (shapes.contains(fmt::format("h.{}.ln_1.weight", config.n_layer))) ++config.n_layer;
  if (config.n_layer == 0) refuse("not GPT-2's weights: tensor \"h.0.ln_1.weight\" is missing");
  // A small file must not make a large model.
  if (config.parameters() > numbers) {
    refuse(fmt::format("{} layers of width {} are {} weights, but the file has {}", config.n_layer, config.n_embd,
                       config.parameters(), numbers));
  }

  const auto take_from = [&](const Config& preset) {
    config.name = preset.name;
    config.n_head = preset.n_head;
  };
  if (!named.empty()) {
    const Config wanted = preset(named);
    if (!has_layers_of(wanted, config)) {
      refuse(fmt::format("has {} layers of width {}; {} has {} of width {}", config.n_layer, config.n_embd, wanted.name,
                         wanted.n_layer, wanted.n_embd));
    }
    take_from(wanted);
    return config;
  }
  if (const std::optional<int64_t> heads = heads_by_config_json(file, config)) {
    config.n_head = *heads;
    return config;
  }
  for (const std::string& name : preset_names()) {
    if (has_layers_of(preset(name), config)) take_from(preset(name));
  }
  if (config.n_head == 0) {
    refuse(fmt::format("{} layers of width {} are none of {}, and no config.json beside the file says its n_head",
                       config.n_layer, config.n_embd, fmt::join(preset_names(), ", ")));
  }
  return config;
}

}  // namespace model
