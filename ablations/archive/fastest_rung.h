// The fastest rung that a machine has shown: what a training runs where nobody names a recipe.
#pragma once

#include "ablations/documents/environment.h"
#include "model/recipe.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace ablations {

struct ShownRung {
  model::Recipe recipe;
  std::string title;   // "fused AdamW"
  std::string ladder;  // "gpt2-cpu"
  std::filesystem::path study;
  std::string finished;  // UTC, ISO 8601
};

// Of the studies in `folder` and below the newest that counts: of a ladder as a whole, of that model, finished, and
// measured under the circumstances of `here` (documents/setting.h). The rung is the fastest that its headline names,
// or, where `fits` refuses that, the last. None: there is no such study, or `fits` refuses both rungs of each.
std::optional<ShownRung> fastest_shown(const std::filesystem::path& folder, const std::string& model,
                                       const Environment& here, const std::function<bool(const model::Recipe&)>& fits);

}  // namespace ablations
