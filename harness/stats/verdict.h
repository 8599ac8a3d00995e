// Verdicts from paired runs of two programs, and how small a change a machine can show.
#pragma once

#include "harness/stats/stats.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace harness {

inline constexpr double usual_min_effect = 0.02;  // the least ratio minus 1 that matters, by default

// `regression`, `improvement`: slower or faster by more than the least effect that matters. `same`: neither.
// `inconclusive`: these runs cannot tell.
enum class Verdict { regression, improvement, same, inconclusive };

// Nothing follows from fewer pairs than this, or from an interval whose ends are further apart.
constexpr int64_t fewest_pairs = 4;
constexpr double widest_interval = 10;
// "2 pairs of runs, and a verdict needs 4". Empty: a ratio of so many pairs with this interval is usable.
std::string why_unusable(int64_t pairs, std::optional<double> lo, std::optional<double> hi);
// Half of the runs, or more: so many disturbed ones leave nothing to compare.
constexpr bool are_most(int64_t disturbed, int64_t runs) { return runs > 0 && 2 * disturbed >= runs; }

struct PairedVerdict {
  Estimate ratio;        // head / base: above 1 is more time, or more of whatever was measured
  int64_t greater = 0;   // pairs in which head took more
  int64_t unequal = 0;   // pairs in which they differ
  double sign_test = 1;  // p-value, two-sided
  Verdict verdict = Verdict::inconclusive;
};

// Compares a ratio's interval with the band from 1/(1 + min_effect) to 1 + min_effect. Above it: regression. Below it:
// improvement. Inside: same. Across a bound, or no interval: inconclusive. min_effect >= 0: 0.02 for 2 %.
Verdict judge(const Estimate& ratio, double min_effect);

// base[i] and head[i] are the positive medians of a pair of runs. Same length, at least 1.
PairedVerdict compare(std::span<const double> base, std::span<const double> head, double min_effect);

// Whether the verdict of so many pairs is clear before all declared ones are in. `differences` are of the logarithms of
// their times, head minus base. It asks an interval of 99.9 %, which needs 11 pairs: three such looks add a third of a
// percent at most to the false alarms of the last (Haybittle and Peto's rule; Jennison and Turnbull 2000, "Group
// Sequential Methods", 2.6).
bool is_clear_early(std::span<const double> differences, double min_effect);

// From this many sessions of one program on, another session is judged by how those differ. Pairing cannot cancel that
// a machine runs at a different pace today.
constexpr size_t sessions_to_judge_by = 3;
// A session's time is the median of at least this many runs. Sessions begin at least this many hours apart, because
// sessions in a row differ less than sessions on different days.
constexpr size_t runs_of_a_session = 6;
constexpr double hours_between_sessions = 12;

// How small a change `pairs` pairs of runs can show: the ratio minus 1 that must come on top of the least effect. A
// regression of that size is found in 95 % of studies. `differences` (at least 6) are of the logarithms of two equal
// programs' times (A/A). They are resampled with either sign, because chance decides which of two equal programs came
// out slower. 2,000 studies are simulated, with a fixed seed. The further a least effect lies below the result, the
// more comparisons of equal programs are inconclusive.
double noise_floor(std::span<const double> differences, int64_t pairs);

// The same for one session that ratio_to_earlier (harness/stats/stats.h) judges against at least two `sessions` of one
// program, each its median. If sessions are normally distributed, 95 % of such sets of sessions find the regression.
double noise_floor_of_sessions(std::span<const double> sessions);

}  // namespace harness
