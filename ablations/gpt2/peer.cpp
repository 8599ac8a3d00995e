#include "ablations/gpt2/peer.h"

#include "files/json_file.h"
#include "files/resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace ablations {

using files::Json;

namespace {

bool is_in_fp8(const std::string& peer) { return peer_name(peer).mode == "fp8"; }

const Json& declaration() {
  static const Json can_do = files::read_any_json(files::resource_root() / "ablations" / "peers" / "pytorch.json");
  return can_do;
}

}  // namespace

std::string peer_obstacle(const model::Recipe& recipe, const std::string& peer, int64_t tokens) {
  const Json& declared = declaration().at("fields");
  const auto own_way = declaration().at("own_way").get<std::vector<std::string>>();
  const Json plain = model::to_json(model::Recipe());
  const Json wanted = model::to_json(recipe);
  for (const auto& [field, value] : wanted.items()) {
    if (std::ranges::find(own_way, field) != own_way.end()) continue;
    const auto values = declared.find(field);
    const bool can = values == declared.end() ? value == plain.at(field)
                     : values->is_array()     ? std::ranges::find(*values, value) != values->end()
                                              : *values == "any";
    if (!can) return fmt::format("PyTorch cannot do {} {}", field, value.dump());
  }
  if (!is_in_fp8(peer)) return "";
  if (recipe.autocast != model::Autocast::bf16) return "PyTorch's fp8 products need autocast bf16";
  if (recipe.vocabulary_rows % 16 == 0 && tokens % 16 == 0) return "";
  return fmt::format("PyTorch's fp8 products need multiples of 16: vocabulary_rows is {}, and a batch has {} tokens",
                     recipe.vocabulary_rows, tokens);
}

double peer_tolerance(const std::string& peer) { return is_in_fp8(peer) ? 2e-2 : 0; }

}  // namespace ablations
