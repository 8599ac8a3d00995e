// The guard: a rung's speedup counts only if its losses follow those of the rung that guards it.
#pragma once

#include "ablations/measured.h"
#include "ablations/plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

// Whether a rung learns what the reference rung learns.
struct Guard {
  bool passed = false;
  std::optional<double> max_deviation;  // nats; none where a loss is not finite
  double tolerance = 0;                 // see tolerance_between
  double known_offset = 0;              // ln(V' / V): what padding rows may add to a loss
  int64_t steps = 0;
  std::string message;
};

// losses, reference: mean loss of each step, same length; NaN where it was not finite. A loss may lie between the
// reference's and known_offset beyond it, give or take the tolerance. A run whose gradient scaler skipped `skipped`
// steps is so many updates behind: its loss may lie anywhere among the reference's of this step and of so many before
// it.
Guard guard(const std::vector<double>& losses, const std::vector<double>& reference, double tolerance,
            double known_offset, int64_t skipped = 0);

// By how much the losses of two programs that do the same may differ, in nats.
constexpr double other_program_tolerance = 1e-3;

// The largest loss_tolerance of the optimizations that one of the two has on; more between two programs.
double tolerance_between(const Rung& rung, const Rung& reference);

// The worst run's verdict, each against the reference's run of the same repeat where there is one. Neither is empty.
Guard guard_rung(const Rung& rung, const RunsByRepeat& runs, const Rung& reference, const RunsByRepeat& reference_runs);

harness::Json to_json(const Guard& guard);

}  // namespace ablations
