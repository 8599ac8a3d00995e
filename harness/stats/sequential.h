// Whether a change is kept or discarded, decided while its pairs are made. The errors hold at every look.
//
// The evidence is a likelihood ratio: how much likelier the pairs are if the change gains `gain` noises than if it
// gains nothing. A noise is the standard deviation of a pair's difference. It is not known, so the ratio is that of the
// differences without their scale, Student's (Rushton 1950, "On a sequential t-test"). Such a ratio exceeds 1/p with
// probability p at most, however often one looks (Ville's inequality; Perez-Ortiz, Lardy, de Heij and Gruenwald 2024,
// "E-statistics, group invariance and anytime-valid testing"). Two bounds make it a test (Wald 1945, "Sequential tests
// of statistical hypotheses"). docs/power.md simulates it.
#pragma once

#include "harness/stats/stats.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace harness {

// What earlier experiments have shown of the noise: the sum of squares about their own centers, and its degrees of
// freedom.
struct PooledNoise {
  double squares = 0, freedom = 0;

  // Adds an experiment's differences. Where the noise is known, each counts up to `far_out` noises from their median.
  void add(std::span<const double> differences);
  [[nodiscard]] double deviation() const;  // of one difference; NaN if nothing is known
};

// A difference counts up to this many noises from what it is compared with. So one run that something else disturbed
// decides nothing. It is known from eight degrees of freedom on.
constexpr double far_out = 2.5;

// The gain in noises that `pairs` pairs show in about nine of ten experiments with an error of `level`.
double gain_shown_by(int64_t pairs, double level);

// The natural logarithm of the evidence for a mean difference of `gain` noises against none. A mean below none is still
// less likely. `differences`: at least one; of one and without known noise it is 0. A negative `gain` is evidence for a
// mean below none.
double log_evidence(std::span<const double> differences, double gain, const PooledNoise& known);

enum class Decision { keep, discard, undecided };

// What one experiment may do.
struct ExperimentTerms {
  double level = 0.05;      // a change without the wanted gain is kept with this probability at most
  int64_t most_pairs = 16;  // which sets the gain that can be shown
  double least_gain = 0;    // wanted: the logarithm of a ratio; 0: any
};
// A change that gains enough is discarded with this probability at most.
constexpr double discard_level = 0.08;

struct Judged {
  Decision decision = Decision::undecided;
  double log_evidence = 0;  // for more than least_gain; natural
};

// `gains`: one for each pair so far, ln(base / head) where less is better. At least one.
//
// Keep: the evidence for more than least_gain is 1/level. Discard: where any gain is wanted, one that most_pairs pairs
// could show is excluded; where a least gain is wanted, one that large is.
Judged judge_experiment(std::span<const double> gains, const ExperimentTerms& terms, const PooledNoise& known);

// The center of the gains, as symmetric_center. Its interval holds the mean gain at all looks together, at
// `confidence`.
Estimate gain_at_any_look(std::span<const double> gains, const ExperimentTerms& terms, const PooledNoise& known);

// The level of a night's next experiment: e-LOND (Xu and Ramdas 2024, "Online multiple testing with e-values"). Of all
// that is kept, a share of `error` is no gain, in the mean. If nothing gains, a night keeps anything with probability
// `error`. It holds however the experiments depend on each other. `before`: experiments so far; `kept`: of those.
double level_of_next(double error, size_t before, size_t kept);

}  // namespace harness
