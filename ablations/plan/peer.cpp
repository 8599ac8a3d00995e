#include "ablations/plan/peer.h"

#include "files/json_file.h"
#include "files/resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace ablations {

using files::Json;

std::string peer_obstacle(const model::Recipe& recipe) {
  static const Json can_do = files::read_any_json(files::resource_root() / "ablations" / "peers" / "pytorch.json");
  const Json& declared = can_do.at("fields");
  const auto own_way = can_do.at("own_way").get<std::vector<std::string>>();
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
  return "";
}

}  // namespace ablations
