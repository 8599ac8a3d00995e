// The fastest rung that a machine has shown: what a training runs where nobody names a recipe.
#pragma once

#include "model/recipe.h"
#include "results/environment.h"

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

struct FastestShown {
  std::optional<ShownRung> rung;
  std::string passed_over;  // a newer study that shows none, and why; empty: there is none
};

// Of the studies in `folder` and below the newest that counts: of a ladder as a whole, of that model, finished,
// measured under the circumstances of `here` (documents/setting.h), most of its runs undisturbed, and one rung clearly
// the fastest: that which its headline names, else the last if it is clearly faster than the first, else the first if
// the last is clearly slower. Where `fits` refuses a headline's fastest, the last is taken. None: there is no such
// study, or `fits` refuses the rungs of each.
FastestShown fastest_shown(const std::filesystem::path& folder, const std::string& model, const Environment& here,
                           const std::function<bool(const model::Recipe&)>& fits);

}  // namespace ablations
