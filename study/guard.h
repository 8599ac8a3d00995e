// The guard: a rung's speedup counts only if it learns what its reference rung learns.
//
// Both begin with the same weights and see the same tokens. So the losses of two correct programs differ only by
// rounding. Training amplifies rounding. At a sensitive step two correct programs may be 0.05 nats apart and meet again
// later. After thirty steps they have drifted apart for good. So the median of the deviations over the first steps
// decides. Rounding goes both ways and largely cancels there. A wrong program stays on one side (docs/power.md,
// "Losses"). Rounding never reaches half a nat at a step.
#pragma once

#include "ablations/plan/make_plan.h"
#include "results/study.h"
#include "study/measured.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace study {

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

// A loss between these does not deviate. One pair for each step of the reference; NaN if it has no loss there.
struct Band {
  std::vector<double> lo, hi;
};

// The most nats of a text's tokens after training has ruled out tokens that never come up. It is an even choice among
// 3,000.
constexpr double hardest_text = 8;

// Padding columns are like tokens that never come up. Training rules both out together. At first they have all of the
// softmax, at a loss of L nats at least 1 - exp(hardest_text - L). The same share of known_offset lies between the two
// losses. A gradient scaler may skip `skipped` steps. Then the loss may equal the reference's at this step or at one of
// so many before it.
Band band_of(const std::vector<double>& reference, double known_offset, int64_t skipped);

// How far each loss lies outside the band, with its sign, in nats; NaN where it or the band is not finite. As long as
// the shorter of the two.
std::vector<double> deviations(const std::vector<double>& losses, const Band& band);

// The number of first steps whose median decides.
constexpr size_t judged_steps = 16;
// The largest deviation of a step that may pass, in nats.
constexpr double largest_deviation = 0.5;

// losses, reference: mean loss of each step; NaN where it was not finite. Passes if all losses are finite and no
// deviation exceeds largest_deviation. The median of the first judged_steps deviations must be within the tolerance.
// Deviations are from the reference's band, in either direction.
Guard guard(const std::vector<double>& losses, const std::vector<double>& reference, double tolerance,
            double known_offset, int64_t skipped = 0);

// A guard that failed is worse than one that passed. Otherwise the larger deviation is worse; a loss that is not finite
// is the worst.
bool is_worse(const Guard& one, const Guard& other);

// The worst run's verdict, each against the reference's run of the same repeat where there is one. Neither is empty.
Guard guard_rung(const Rung& rung, const RunsByRepeat& runs, const Rung& reference, const RunsByRepeat& reference_runs);

// The same for runs of which only the tolerance and the offset are known.
Guard worst_of(const RunsByRepeat& runs, const RunsByRepeat& reference_runs, double tolerance, double known_offset);

// The reference's run of the same repeat; its first, where it has none.
const RunData& partner_of(int64_t repeat, const RunsByRepeat& reference_runs);

// The guard of `ladder measure`: whether a command learns what its reference learns, without a limit from the user.
//
// The deviation of a run is the median over the first 16 lines that both have, as in guard.h. The mean over a command's
// runs decides. It may be a thousandth of the loss, about the limit that GPT-2's 16-bit recipes have. If the
// reference's own runs differ, it may be what their differences give a mean by chance in one of a hundred studies, by
// Student's t. If that is more than a hundredth of the loss, nothing is compared. One run of the reference does not
// show how its runs differ.
//
// Three times what the reference's runs are apart is no limit for the worst run. Two runs may be close by chance, which
// gives false alarms in a quarter of studies. With more runs, fewer faults are found (docs/power.md, "Losses of
// commands").

struct CommandGuard {
  std::optional<RungGuard> verdict;  // none: there was nothing to compare
  std::string words;                 // "the same (0.0006 off at steps 10 to 80, 0.0108 allowed)", or why not compared
};

// Neither is empty.
CommandGuard guard_command(const RunsByRepeat& runs, const RunsByRepeat& reference_runs);

}  // namespace study
