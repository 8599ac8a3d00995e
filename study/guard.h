// The guard: a rung's speedup counts only if it learns what its reference rung learns.
//
// Both begin with the same weights and see the same tokens, so the losses of two correct programs differ only by
// rounding. Training amplifies rounding: at a sensitive step two correct programs may be 0.05 nats apart and meet again
// a few steps later, and after thirty steps they have drifted apart for good. So no single step decides, and no late
// one, but the median of the deviations over the first steps. Rounding goes both ways and largely cancels there, while
// a wrong program stays on one side (docs/power.md, "Losses"). Rounding never reaches half a nat at a step.
#pragma once

#include "ablations/plan/plan.h"
#include "study/measured.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

// Whether a rung learns what the reference rung learns.
struct Guard {
  bool passed = false;
  std::optional<double> deviation;      // nats, with its sign: what is judged; none where a loss is not finite
  std::optional<double> max_deviation;  // nats, of the step that is furthest off: shown, decides nothing
  double tolerance = 0;                 // what the deviation may be; see techniques.h, tolerance_between
  double known_offset = 0;              // what padding columns add to the first loss; see techniques.h
  int64_t steps = 0;
  std::string message;
  int64_t repeat = 0;  // whose run it is about
};

// Between these a loss counts as not deviating, one for each step of the reference; NaN where it has none.
struct Band {
  std::vector<double> lo, hi;
};

// No text's tokens take more nats once those are ruled out that never come up: as an even choice among 3,000.
constexpr double hardest_text = 8;

// Padding columns are like tokens that never come up, which training rules out together. At a loss of L nats these have
// 1 - exp(hardest_text - L) of the softmax at least, and all of it at first. So much of known_offset is between the two
// losses. A run whose gradient scaler skipped `skipped` steps is so many updates behind: its loss may lie anywhere
// among the reference's of this step and of so many before it.
Band band_of(const std::vector<double>& reference, double known_offset, int64_t skipped);

// How far each loss lies outside the band, with its sign, in nats; NaN where it or the band is not finite. As long as
// the shorter of the two.
std::vector<double> deviations(const std::vector<double>& losses, const Band& band);

// Of so many first steps the median is judged.
constexpr size_t judged_steps = 16;
// No step may deviate by more, in nats.
constexpr double largest_deviation = 0.5;

// losses, reference: mean loss of each step; NaN where it was not finite. Passes where all are finite, the median of
// the first judged_steps deviations from the reference's band is at most the tolerance, in either direction, and none
// is more than largest_deviation.
Guard guard(const std::vector<double>& losses, const std::vector<double>& reference, double tolerance,
            double known_offset, int64_t skipped = 0);

// Whether one failed and the other did not, else whether one is further off; a loss that is not finite is the furthest.
bool is_worse(const Guard& one, const Guard& other);

// The worst run's verdict, each against the reference's run of the same repeat where there is one. Neither is empty.
Guard guard_rung(const Rung& rung, const RunsByRepeat& runs, const Rung& reference, const RunsByRepeat& reference_runs);

// The same of runs about which only these are known.
Guard worst_of(const RunsByRepeat& runs, const RunsByRepeat& reference_runs, double tolerance, double known_offset);

// The reference's run of the same repeat; its first, where it has none.
const RunData& partner_of(int64_t repeat, const RunsByRepeat& reference_runs);

}  // namespace ablations
