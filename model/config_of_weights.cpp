// A wrong number of heads gives wrong text and no error: it is looked up, never guessed.
#include "model/config_of_weights.h"

#include "files/json_file.h"
#include "files/printable.h"
#include "model/checkpoint.h"
#include "model/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace model {

namespace {

using Shape = std::vector<int64_t>;

bool has_layers_of(const Config& a, const Config& b) { return a.n_layer == b.n_layer && a.n_embd == b.n_embd; }

// Names of fields in models of all kinds, which transformers takes for GPT-2's.
constexpr std::pair<const char*, const char*> other_names[] = {{"n_head", "num_attention_heads"},
                                                               {"n_layer", "num_hidden_layers"},
                                                               {"n_embd", "hidden_size"},
                                                               {"n_positions", "max_position_embeddings"}};

// What the config.json beside the file says, if there is one. It may ask for what this program's GPT-2 does not do.
class ConfigFile {
 public:
  explicit ConfigFile(const std::filesystem::path& weights) : file_(weights.parent_path() / "config.json") {
    if (std::filesystem::exists(file_)) document_ = files::read_any_json(file_);
  }

  // Null where it does not say.
  [[nodiscard]] files::Json operator[](const char* name) const {
    const files::Json field = files::field_or_null(document_, name);
    const auto* const other =
        std::ranges::find(other_names, std::string_view(name), [](const auto& p) { return p.first; });
    return field.is_null() && other != std::end(other_names) ? files::field_or_null(document_, other->second) : field;
  }
  void require(bool good, const char* name, const std::string& rule) const {
    const files::Json got = (*this)[name];
    if (good || got.is_null()) return;
    throw std::invalid_argument(fmt::format("{}: \"{}\" must {}, got {}", file_.string(), name, rule,
                                            files::shortened(files::printable(got.dump()), 60)));
  }
  void require(const char* name, const files::Json& value) const {
    require((*this)[name] == value, name, "be " + value.dump());
  }

 private:
  std::filesystem::path file_;
  files::Json document_;
};

void check_is_ours(const ConfigFile& said, const StoredConfig& config) {
  said.require("model_type", "gpt2");
  said.require("n_layer", config.n_layer);
  said.require("n_embd", config.n_embd);
  said.require("n_positions", config.n_positions);
  said.require("n_inner", 4 * config.n_embd);
  said.require("layer_norm_epsilon", Config::layer_norm_eps);
  said.require("scale_attn_weights", true);
  said.require("scale_attn_by_inverse_layer_idx", false);
  said.require("add_cross_attention", false);
  said.require("tie_word_embeddings", true);
  const files::Json gelu = said["activation_function"], vocabulary = said["vocab_size"], heads = said["n_head"];
  const bool by_tanh = gelu == "gelu_new" || gelu == "gelu_pytorch_tanh" || gelu == "gelu_fast";
  said.require(by_tanh, "activation_function", "be \"gelu_new\"");
  const int64_t rows = vocabulary.is_number_integer() ? vocabulary.get<int64_t>() : 0;
  said.require(rows >= config.vocabulary && rows <= config.vocabulary_rows, "vocab_size",
               fmt::format("be {}", config.vocabulary_rows));
  const uint64_t count = heads.is_number_unsigned() ? heads.get<uint64_t>() : 0;
  said.require(count > 0 && static_cast<uint64_t>(config.n_embd) % count == 0, "n_head",
               fmt::format("divide the width {}", config.n_embd));
}

}  // namespace

std::filesystem::path weights_file(const std::filesystem::path& file_or_folder) {
  if (!std::filesystem::is_directory(file_or_folder)) return file_or_folder;
  for (const char* name : {"model.safetensors", "best/model.safetensors", "latest/model.safetensors",
                           "model.safetensors.index.json", "pytorch_model.bin"}) {
    if (std::filesystem::exists(file_or_folder / name)) return file_or_folder / name;
  }
  throw std::invalid_argument(
      fmt::format("{}: is a folder without model.safetensors, which ladder train --out and save_pretrained() of "
                  "transformers write",
                  file_or_folder.string()));
}

StoredConfig config_of_weights(const std::filesystem::path& file, const std::string& named) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(fmt::format("{}: {}", file.string(), why));
  };
  const std::map<std::string, Shape> shapes = under_own_names(read_safetensors_shapes(file), file);
  int64_t numbers = 0;
  for (const auto& [name, shape] : shapes) {
    numbers += std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
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
  StoredConfig config{{.name = "this model", .n_layer = 0, .n_head = 0, .n_embd = wte[1], .n_positions = wpe[0]},
                      wte[0]};
  if (wte[0] < config.vocabulary) {
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

  const ConfigFile said(file);
  check_is_ours(said, config);
  for (const char* dropout : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) {
    if (said[dropout].is_number()) config.dropout = std::max(config.dropout, said[dropout].get<double>());
  }
  const files::Json heads = said["n_head"];
  if (!heads.is_null()) config.n_head = heads.get<int64_t>();
  for (const std::string& name : named.empty() ? preset_names() : std::vector{named}) {
    const Config known = preset(name);
    if (!has_layers_of(known, config)) continue;
    if (!named.empty()) said.require("n_head", known.n_head);
    if (config.n_head == 0) config.n_head = known.n_head;
    if (config.n_head == known.n_head) config.name = known.name;
  }
  if (!named.empty() && config.name != named) {
    const Config wanted = preset(named);
    refuse(fmt::format("has {} layers of width {}; {} has {} of width {}", config.n_layer, config.n_embd, wanted.name,
                       wanted.n_layer, wanted.n_embd));
  }
  if (config.n_head == 0) {
    refuse(fmt::format("{} layers of width {} are none of {}, and no config.json beside the file says its n_head",
                       config.n_layer, config.n_embd, fmt::join(preset_names(), ", ")));
  }
  return config;
}

std::string rows_left_out(const std::filesystem::path& file, const StoredConfig& stored, int64_t rows) {
  if (stored.vocabulary_rows <= rows) return "";
  return fmt::format("{}: its embedding has {} rows; those beyond {} are left out", file.string(),
                     stored.vocabulary_rows, rows);
}

}  // namespace model
