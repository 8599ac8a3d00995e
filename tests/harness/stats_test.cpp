// Order statistics against known values, and the interval's coverage by simulation.
#include "harness/stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace {

using namespace harness;

TEST(Quantile, InterpolatesBetweenOrderStatistics) {
  const std::vector<double> values{4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(median(values), 2.5);
  EXPECT_DOUBLE_EQ(quantile(values, 0.25), 1.75);  // definition 7, as NumPy's default
  EXPECT_DOUBLE_EQ(quantile(values, 0.75), 3.25);
  EXPECT_DOUBLE_EQ(quantile(values, 0.0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 1.0), 4);
  EXPECT_DOUBLE_EQ(median(std::vector<double>{7}), 7);
}

TEST(Interval, OneRunHasNone) {
  EXPECT_FALSE(median_with_interval(std::vector<double>{5}).interval);
  EXPECT_FALSE(paired_ratio(std::vector<double>{5}, std::vector<double>{4}).interval);
}

TEST(Interval, EqualRunsHaveANarrowOne) {
  const Estimate estimate = median_with_interval(std::vector<double>{5, 5, 5});
  EXPECT_DOUBLE_EQ(estimate.center, 5);
  EXPECT_DOUBLE_EQ(estimate.interval->lo, 5);
  EXPECT_DOUBLE_EQ(estimate.interval->hi, 5);
}

TEST(PairedRatio, CancelsWhatAPairShares) {
  // Drift slows both runs of a pair by the same factor: the ratio does not see it.
  const Estimate estimate = paired_ratio(std::vector<double>{10, 20, 40}, std::vector<double>{5, 10, 20});
  EXPECT_DOUBLE_EQ(estimate.center, 2);
  EXPECT_NEAR(estimate.interval->lo, 2, 1e-9);
  EXPECT_NEAR(estimate.interval->hi, 2, 1e-9);
  EXPECT_EQ(estimate.n, 3);
}

TEST(Interval, IsTheSameForTheSameValues) {
  const std::vector<double> values{1.0, 1.1, 0.9, 1.3};
  EXPECT_EQ(median_with_interval(values).interval->hi, median_with_interval(values).interval->hi);
}

TEST(MeanRatio, IsTheGeometricMeanWithStudentsInterval) {
  EXPECT_FALSE(mean_ratio(std::vector<double>{0.5}).interval);
  const Estimate estimate = mean_ratio(std::vector<double>{0.1, 0.2, 0.6});
  EXPECT_NEAR(estimate.center, std::exp(0.3), 1e-12);
  // s = sqrt(0.07), t with 2 degrees of freedom 4.302653
  EXPECT_NEAR(std::log(estimate.interval->hi) - 0.3, 4.302652729911275 * std::sqrt(0.07 / 3), 1e-9);
  EXPECT_NEAR(std::log(estimate.interval->hi) + std::log(estimate.interval->lo), 0.6, 1e-9);
}

// How often the interval holds the true median, for runs whose logarithms are normal.
double coverage(size_t n, int studies) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0.0, 0.03);
  int covered = 0;
  std::vector<double> runs(n);
  for (int i = 0; i < studies; ++i) {
    for (double& run : runs) run = 100 * std::exp(noise(random));
    const Estimate estimate = median_with_interval(runs);
    covered += estimate.interval->lo <= 100 && 100 <= estimate.interval->hi ? 1 : 0;
  }
  return static_cast<double>(covered) / studies;
}

TEST(Interval, CoversAboutAsOftenAsItSays) {
  for (const size_t n : {2, 3, 4, 5, 8}) {
    const double share = coverage(n, 1000);
    EXPECT_GT(share, 0.92) << n;
    EXPECT_LT(share, 0.995) << n;
  }
}

}  // namespace
