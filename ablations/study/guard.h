// The guard: a rung's speedup counts only if its losses follow those of the rung that guards it.
#pragma once

#include "ablations/plan/plan.h"
#include "ablations/study/measured.h"
#include "harness/json_file.h"

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
  int64_t repeat = 0;  // whose run it is about
};

// Between these a loss passes without using up any of the tolerance, one for each step of the reference; NaN where it
// has none. Beyond them it may lie by the tolerance.
struct Band {
  std::vector<double> lo, hi;
};

// A loss may lie between the reference's and known_offset beyond it. A run whose gradient scaler skipped `skipped`
// steps is so many updates behind: its loss may lie anywhere among the reference's of this step and of so many before
// it.
Band band_of(const std::vector<double>& reference, double known_offset, int64_t skipped);

// losses, reference: mean loss of each step, same length; NaN where it was not finite. Every loss has to lie in the
// reference's band, give or take the tolerance.
Guard guard(const std::vector<double>& losses, const std::vector<double>& reference, double tolerance,
            double known_offset, int64_t skipped = 0);

// By how much the losses of two programs that do the same may differ, in nats.
constexpr double other_program_tolerance = 1e-3;
// The same at a recipe of less than IEEE float32, where another order of sums rounds visibly: a few times what bf16
// itself moves a loss by within a run.
constexpr double low_precision_tolerance = 1e-2;

// The largest loss_tolerance of the optimizations that one of the two has on; more between two programs.
double tolerance_between(const Rung& rung, const Rung& reference);

// The worst run's verdict, each against the reference's run of the same repeat where there is one. Neither is empty.
Guard guard_rung(const Rung& rung, const RunsByRepeat& runs, const Rung& reference, const RunsByRepeat& reference_runs);

// The same of runs about which only these are known.
Guard worst_of(const RunsByRepeat& runs, const RunsByRepeat& reference_runs, double tolerance, double known_offset);

// The reference's run of the same repeat; its first, where it has none.
const RunData& partner_of(int64_t repeat, const RunsByRepeat& reference_runs);

// `guarded_by`: the reference rung's index.
harness::Json to_json(const Guard& guard, size_t guarded_by);

}  // namespace ablations
