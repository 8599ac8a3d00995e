#include "ablations/plan/gate_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace ablations {

void add_arms(std::vector<Rung>& arms, const Rung& rung, const std::string& base, const std::string& head) {
  const auto add = [&](const char* side, const std::string& program) {
    arms.push_back({.optimization = "",
                    .title = label_of(rung),
                    .applied = rung.applied,
                    .recipe = rung.recipe,
                    .name = fmt::format("{}-{}", side, name_of(rung)),
                    .program = program});
  };
  if (!base.empty()) add("base", base);
  add("head", head);
  if (!base.empty()) arms.back().against = arms.size() - 2;
}

bool is_base(const std::vector<Rung>& arms, size_t arm) {
  return std::ranges::any_of(arms, [&](const Rung& other) { return other.against == arm; });
}

std::vector<PlannedRun> abba(const std::vector<Rung>& arms, int64_t repeats, bool blocked) {
  const size_t sides = arms.back().against ? 2 : 1, recipes = arms.size() / sides;
  std::vector<PlannedRun> runs;
  for (int64_t repeat = 0; repeat < repeats; ++repeat) {
    for (size_t i = 0; i < recipes; ++i) {
      const size_t recipe = (i + static_cast<size_t>(repeat)) % recipes;
      for (size_t place = 0; place < sides; ++place) {
        const size_t side = repeat % 2 == 1 ? sides - 1 - place : place;
        runs.push_back(run_of(arms, recipe * sides + side, repeat));
      }
    }
  }
  if (blocked) {
    std::stable_partition(runs.begin(), runs.end(), [&](const PlannedRun& run) { return is_base(arms, run.rung); });
  }
  return runs;
}

bool is_blocked(const Plan& plan) {
  return std::ranges::is_partitioned(plan.runs, [&](const PlannedRun& run) { return is_base(plan.rungs, run.rung); });
}

}  // namespace ablations
