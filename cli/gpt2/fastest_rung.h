// The fastest rung that a machine has shown: what a training runs where nobody names a recipe.
#pragma once

#include "model/recipe.h"
#include "results/environment.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace cli {

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

// Looks for the newest study that counts, in `folder` and below. It measured the whole ladder of that model, and is
// finished. Its circumstances are those of `here` (results/setting.h). Most of its runs are undisturbed, and one rung
// is clearly the fastest. That is the rung of its headline. Without a headline it is the last or the first rung,
// whichever is clearly faster than the other. If `fits` refuses the headline's rung, the last is taken. Returns no rung
// if no study counts or `fits` refuses all.
FastestShown fastest_shown(const std::filesystem::path& folder, const std::string& model, const Environment& here,
                           const std::function<bool(const model::Recipe&)>& fits);

}  // namespace cli
