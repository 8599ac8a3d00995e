// Order statistics and bootstrap intervals. The unit is a run: steps within a run are autocorrelated and are never resampled.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace harness {

// Linear interpolation between order statistics (Hyndman and Fan 1996, definition 7). `values` not empty, p in [0, 1].
double quantile(std::span<const double> values, double p);
double median(std::span<const double> values);

struct Interval {
  double lo, hi;
};

struct Estimate {
  double center;
  std::optional<Interval> interval;  // none with fewer than two runs
  int64_t n = 0;
};

// Median of `values` with the expanded percentile bootstrap interval (Hesterberg 2015, "What teachers should know about the
// bootstrap", section 4): the percentile interval at level Phi(-sqrt(n/(n-1)) t_{n-1}), which makes up for the narrowness of
// the plain one at small n. 10,000 resamples from a fixed seed: the same values give the same interval.
// `values`: one per run, not empty.
Estimate median_with_interval(std::span<const double> values, double confidence = 0.95);

// Ratio before/after from paired runs: exp of the median of ln(before / after), interval as above, on the logarithms.
// Both spans have the same length, at least 1, and hold positive numbers; pair i is before[i], after[i].
Estimate paired_ratio(std::span<const double> before, std::span<const double> after, double confidence = 0.95);

}  // namespace harness
