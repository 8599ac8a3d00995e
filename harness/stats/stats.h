// Order statistics and bootstrap intervals. The unit is a run: steps within a run are autocorrelated and are never
// resampled.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace harness {

// Linear interpolation between order statistics (Hyndman and Fan 1996, definition 7). `values` not empty, p in [0, 1].
double quantile(std::span<const double> values, double p);
double median(std::span<const double> values);

// Standard deviation: of a sample, over n - 1; NaN for one value. `values` not empty.
struct Moments {
  double mean, deviation;
};
Moments moments(std::span<const double> values);

// The confidence of every interval.
constexpr double confidence = 0.95;

struct Interval {
  double lo, hi;
};

struct Estimate {
  double center;
  std::optional<Interval> interval;  // none with fewer than two runs
  int64_t n = 0;
};

// Median of positive `values`, one per run. Its t interval is on the logarithms, with a bootstrapped standard error:
// center times exp(+-t_{n-1} sqrt(n/(n-1)) SE). SE is the standard deviation of the medians of 2,000 resamples
// (Hesterberg 2015, "What teachers should know about the bootstrap"). Unlike a percentile interval it reaches beyond
// the smallest and the largest run. Otherwise two to five runs could not cover 95 %; a test simulates its coverage.
// Resampling starts from a fixed seed: the same values give the same interval. `values` not empty.
Estimate median_with_interval(std::span<const double> values);

// The place about which `differences` are symmetric: the median of the averages of all pairs, each value with itself
// too (Hodges and Lehmann 1963). From six differences on, the interval inverts Wilcoxon's signed-rank test (Hollander,
// Wolfe and Chicken 2013, 3.3). It holds that place in at least `confidence` of all studies, exactly, whatever the
// noise looks like. The noise must only strike both runs of a pair alike. With two to five differences that test cannot
// reach 95 %. Their interval is center +- t_{n-1} sqrt(n/(n-1)) SE, SE bootstrapped as in median_with_interval. One
// difference has no interval. Not empty.
Estimate symmetric_center(std::span<const double> differences, double level = confidence);

// Ratio before/after from paired runs: exp of symmetric_center of ln(before / after).
// Both spans have the same length, at least 1, and hold positive numbers; pair i is before[i], after[i].
Estimate paired_ratio(std::span<const double> before, std::span<const double> after);

// Ratio before/after of runs that are no pairs, at least one on each side, positive: exp of the difference of the means
// of their logarithms. The interval is Student's with Welch's degrees of freedom (Welch 1947, "The generalization of
// Student's problem when several different population variances are involved"). It needs two runs on each side. n is
// the smaller side's.
Estimate unpaired_ratio(std::span<const double> before, std::span<const double> after);

// Two-sided sign test: its p-value for n fair coins of which `heads` show heads. 0 <= heads <= n; 1 for n = 0.
double sign_test(int64_t heads, int64_t n);

// Mean of `values`, one per run, with a t interval: mean +- t_{n-1} s / sqrt(n), s their standard deviation. Not empty.
Estimate mean_with_interval(std::span<const double> values);

// exp of mean_with_interval of `logarithms`. For logarithms that must add up: medians do not. Not empty.
Estimate mean_ratio(std::span<const double> logarithms);

// One more positive `value` over the geometric mean of n `earlier` ones (not empty). Student's prediction interval is
// the center times exp(+-t_{n-1} s sqrt(1 + 1/n)), s the standard deviation of their logarithms. It holds 1 in
// `confidence` of cases where `value` is of their kind (Hahn and Meeker 1991, "Statistical Intervals", 4.4).
Estimate ratio_to_earlier(double value, std::span<const double> earlier);

}  // namespace harness
