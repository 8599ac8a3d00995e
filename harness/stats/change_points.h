// Where a series of measurements changed: steps to another level, and a drift in which no single step stands out. The
// only assumption about the noise is that its order does not matter. So correlated noise (a machine that is slow for a
// week) is reported as a change.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace harness {

struct Step {
  size_t at;      // index of the first value of the new level
  double change;  // new level - old level, medians
  double p;
};

struct Drift {
  double per_value;  // slope: change from one value to the next
  double total;      // from the first value to the last, without the steps
  double p;
};

struct Changes {
  std::vector<Step> steps;  // in order
  std::optional<Drift> drift;
  std::vector<double> level;  // the series without its noise, one for each value
};

// Fewer values than these cannot show a drift or a step, because no order of them is rare enough.
constexpr size_t least_for_drift = 6, least_for_steps = 10;
// The largest rate at which steps or a drift are found in a series of noise alone.
constexpr double false_steps = 0.02, false_drifts = 0.01;

// `values`: logarithms of times, say, in time order, finite. At least one. Time and memory grow with their square. The
// same values give the same answer.
//
// Steps: circular binary segmentation (Olshen et al. 2004). Values are clipped to three robust standard deviations
// around the median, so an outlier weighs little. Candidates are all splits in two, and all stretches of at least three
// that leave the level and come back. The one with the largest sum of squares between is tested by 999 permutations, as
// in E-Divisive (Matteson and James 2014). The parts that it divides are searched again. If 20 or more
// `judged_together` series share one significance level, there are 50 permutations for each. Only so can a p be small
// enough.
// Drift: Mann and Kendall's test with the slope of Theil and Sen, within levels (Hirsch, Slack and Smith 1982). Where a
// straight line alone fits better than the steps (BIC, absolute residuals), there is a drift without steps.
Changes find_changes(std::span<const double> values, size_t judged_together = 1);

}  // namespace harness
