#include "harness/stats/non_inferiority.h"

#include <vector>

namespace harness {

QualityTest test_quality(std::span<const double> losses, std::span<const double> reference, double margin) {
  std::vector<double> differences;
  for (size_t i = 0; i < losses.size(); ++i) differences.push_back(losses[i] - reference[i]);
  QualityTest test{.difference = mean_with_interval(differences)};
  if (!test.difference.interval) return test;
  const auto [lo, hi] = *test.difference.interval;
  test.quality = hi < margin ? Quality::same : lo > margin ? Quality::worse : Quality::unclear;
  return test;
}

}  // namespace harness
