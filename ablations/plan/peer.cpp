#include "ablations/plan/peer.h"

#include "files/json_file.h"
#include "files/resources.h"

#include <fmt/format.h>

#include <algorithm>

namespace ablations {

using files::Json;

std::string peer_obstacle(const model::Recipe& recipe) {
  static const Json declared =
      files::read_any_json(files::resource_root() / "ablations" / "peers" / "pytorch.json").at("fields");
  const Json plain = model::to_json(model::Recipe());
  const Json wanted = model::to_json(recipe);
  for (const auto& [field, value] : wanted.items()) {
    const auto values = declared.find(field);
    const bool can = values == declared.end() ? value == plain.at(field)
                     : values->is_array()     ? std::ranges::find(*values, value) != values->end()
                                              : *values == "any";
    if (!can) return fmt::format("PyTorch cannot do {} {}", field, value.dump());
  }
  return "";
}

}  // namespace ablations
