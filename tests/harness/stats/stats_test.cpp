// Order statistics against known values, and the interval's coverage by simulation.
#include "harness/stats/stats.h"

#include <boost/math/distributions/students_t.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

namespace stats_test {

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

TEST(Interval, OneRunHasNoneAndEqualOnesANarrowOne) {
  EXPECT_FALSE(median_with_interval(std::vector<double>{5}).interval);
  EXPECT_FALSE(paired_ratio(std::vector<double>{5}, std::vector<double>{4}).interval);
  const Estimate estimate = median_with_interval(std::vector<double>{5, 5, 5});
  EXPECT_DOUBLE_EQ(estimate.center, 5);
  EXPECT_DOUBLE_EQ(estimate.interval->lo, 5);
  EXPECT_DOUBLE_EQ(estimate.interval->hi, 5);
  const std::vector<double> values{1.0, 1.1, 0.9, 1.3};  // the same each time
  EXPECT_EQ(median_with_interval(values).interval->hi, median_with_interval(values).interval->hi);
}

TEST(PairedRatio, CancelsWhatAPairShares) {
  // Drift slows both runs of a pair by the same factor: the ratio does not see it.
  const Estimate estimate = paired_ratio(std::vector<double>{10, 20, 40}, std::vector<double>{5, 10, 20});
  EXPECT_DOUBLE_EQ(estimate.center, 2);
  EXPECT_NEAR(estimate.interval->lo, 2, 1e-9);
  EXPECT_NEAR(estimate.interval->hi, 2, 1e-9);
  EXPECT_EQ(estimate.n, 3);
}

// Welch (1947): by hand, variances of the means v = 0.01/3 and 0.04/2, (v + w)^2 / (v^2/2 + w^2/1) degrees of freedom.
TEST(UnpairedRatio, IsWelchsOverLogarithms) {
  const auto exps = [](std::vector<double> values) {
    for (double& value : values) value = std::exp(value);
    return values;
  };
  const double v = 0.01 / 3, w = 0.04 / 2;  // variances of the means
  const std::vector<double> before = exps({0.9, 1.0, 1.1}),
                            after = exps({0.5 - std::sqrt(0.02), 0.5 + std::sqrt(0.02)});
  const Estimate estimate = harness::unpaired_ratio(before, after);
  EXPECT_NEAR(estimate.center, std::exp(0.5), 1e-12);
  EXPECT_EQ(estimate.n, 2);
  const boost::math::students_t t((v + w) * (v + w) / (v * v / 2 + w * w / 1));
  EXPECT_NEAR(std::log(estimate.interval->hi / estimate.center), boost::math::quantile(t, 0.975) * std::sqrt(v + w),
              1e-9);
  EXPECT_NEAR(estimate.interval->hi * estimate.interval->lo, estimate.center * estimate.center, 1e-9);
  EXPECT_FALSE(harness::unpaired_ratio(before, std::vector<double>{2}).interval);
  const Estimate same = harness::unpaired_ratio(std::vector<double>{3, 3}, std::vector<double>{3, 3});
  EXPECT_DOUBLE_EQ(same.interval->lo, 1);
}

// Few logs on each side, the second side three times as noisy: 95 % hold the true ratio. Pairs do not matter.
TEST(UnpairedRatio, HoldsTheTrueRatio) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  for (const auto& [n, m] : {std::pair(3, 3), std::pair(2, 8), std::pair(13, 5)}) {
    constexpr int studies = 4000;
    int held = 0;
    for (int i = 0; i < studies; ++i) {
      std::vector<double> before, after;
      for (int j = 0; j < n; ++j) before.push_back(2 * std::exp(0.01 * normal(random)));
      for (int j = 0; j < m; ++j) after.push_back(std::exp(0.03 * normal(random)));
      const Estimate estimate = harness::unpaired_ratio(before, after);
      held += estimate.interval->lo <= 2 && 2 <= estimate.interval->hi ? 1 : 0;
    }
    EXPECT_GT(held, 0.94 * studies) << n << " and " << m;
    EXPECT_LT(held, 0.99 * studies) << n << " and " << m;
  }
}

// s = 0.3 and sqrt(0.07), t with 2 degrees of freedom 4.302653.
TEST(MeanWithInterval, IsStudentsAndARatiosMeanIsGeometric) {
  constexpr double t = 4.302652729911275;
  EXPECT_FALSE(mean_with_interval(std::vector<double>{0.5}).interval);
  const Estimate mean = mean_with_interval(std::vector<double>{-0.1, 0.2, 0.5});
  EXPECT_NEAR(mean.center, 0.2, 1e-12);
  EXPECT_NEAR(mean.interval->hi, 0.2 + t * 0.3 / std::sqrt(3.0), 1e-9);
  EXPECT_NEAR(mean.interval->lo, 0.2 - t * 0.3 / std::sqrt(3.0), 1e-9);
  EXPECT_FALSE(mean_ratio(std::vector<double>{0.5}).interval);
  const Estimate ratio = mean_ratio(std::vector<double>{0.1, 0.2, 0.6});
  EXPECT_NEAR(ratio.center, std::exp(0.3), 1e-12);
  EXPECT_NEAR(std::log(ratio.interval->hi) - 0.3, t * std::sqrt(0.07 / 3), 1e-9);
  EXPECT_NEAR(std::log(ratio.interval->hi) + std::log(ratio.interval->lo), 0.6, 1e-9);
}

TEST(RatioToEarlier, IsStudentsPredictionInterval) {
  EXPECT_FALSE(ratio_to_earlier(3, std::vector<double>{2}).interval);
  const Estimate estimate = ratio_to_earlier(4, std::vector<double>{std::exp(0.1), std::exp(0.2), std::exp(0.6)});
  EXPECT_NEAR(estimate.center, 4 / std::exp(0.3), 1e-12);
  EXPECT_NEAR(std::log(estimate.interval->hi / estimate.center), 4.302652729911275 * std::sqrt(0.07 * (1 + 1.0 / 3)),
              1e-9);
  EXPECT_NEAR(std::log(estimate.center / estimate.interval->lo), std::log(estimate.interval->hi / estimate.center),
              1e-9);
}

// Whatever few there are: 95 % of further ones of their kind.
TEST(RatioToEarlier, HoldsOneMoreOfTheirKind) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> logarithm(0, 0.02);
  for (const size_t n : {size_t{3}, size_t{10}}) {
    constexpr int trials = 4000;
    int held = 0;
    for (int i = 0; i < trials; ++i) {
      std::vector<double> earlier(n);
      std::ranges::generate(earlier, [&] { return 100 * std::exp(logarithm(random)); });
      const Interval interval = *ratio_to_earlier(100 * std::exp(logarithm(random)), earlier).interval;
      held += interval.lo <= 1 && 1 <= interval.hi ? 1 : 0;
    }
    EXPECT_NEAR(held, 0.95 * trials, 0.012 * trials) << n;
  }
}

TEST(SymmetricCenter, IsTheMedianOfTheWalshAverages) {
  // 1, 2, 6: averages 1, 1.5, 2, 3.5, 4, 6
  EXPECT_DOUBLE_EQ(symmetric_center(std::vector<double>{6, 1, 2}).center, 2.75);
  EXPECT_FALSE(symmetric_center(std::vector<double>{1}).interval);
}

// Tables of the signed-rank test: for n = 8 the critical value at 5 % is 3, so four averages are cut off on either
// side; for n = 6 it is 0, for n = 10 it is 8.
TEST(SymmetricCenter, TheIntervalInvertsTheSignedRankTest) {
  for (const auto& [n, critical] : {std::pair<size_t, size_t>{6, 0}, {7, 2}, {8, 3}, {10, 8}, {20, 52}, {30, 137}}) {
    std::vector<double> values, averages;
    for (size_t i = 0; i < n; ++i) values.push_back(std::pow(1.7, static_cast<double>(i)));  // no two averages equal
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = i; j < n; ++j) averages.push_back((values[i] + values[j]) / 2);
    }
    std::sort(averages.begin(), averages.end());
    const Interval interval = *symmetric_center(values).interval;
    EXPECT_DOUBLE_EQ(interval.lo, averages[critical]) << n;
    EXPECT_DOUBLE_EQ(interval.hi, averages[averages.size() - 1 - critical]) << n;
  }
}

// Where the exact count goes over into its approximation nothing jumps; beyond 1074 values 2^-n is no double any more.
TEST(SymmetricCenter, ManyValuesHaveAnIntervalAroundTheirCenter) {
  std::vector<double> widths;
  for (const size_t n : {1000, 1001, 1080}) {
    std::vector<double> values(n);
    for (size_t i = 0; i < n; ++i) values[i] = static_cast<double>(37 * i % 101);
    const Estimate estimate = symmetric_center(values);
    EXPECT_LT(estimate.interval->lo, estimate.center) << n;
    EXPECT_GT(estimate.interval->hi, estimate.center) << n;
    widths.push_back(estimate.interval->hi - estimate.interval->lo);
    EXPECT_NEAR(widths.back(), widths.front(), 0.1 * widths.front()) << n;
  }
}

TEST(SignTest, CountsCoins) {
  EXPECT_DOUBLE_EQ(sign_test(0, 0), 1);
  EXPECT_NEAR(sign_test(0, 6), 2 / 64.0, 1e-15);  // the first n that can reach 5 %
  EXPECT_NEAR(sign_test(6, 6), 2 / 64.0, 1e-15);
  EXPECT_NEAR(sign_test(1, 8), 2 * 9 / 256.0, 1e-15);
  EXPECT_DOUBLE_EQ(sign_test(4, 8), 1);
}

// How often an interval holds the true center, for runs whose logarithms are normal.
double coverage(size_t n, int studies, Estimate (*estimate)(std::span<const double>)) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0.0, 0.03);
  int covered = 0;
  std::vector<double> runs(n);
  for (int i = 0; i < studies; ++i) {
    for (double& run : runs) run = 100 * std::exp(noise(random));
    const Interval interval = *estimate(runs).interval;
    covered += interval.lo <= 100 && 100 <= interval.hi ? 1 : 0;
  }
  return static_cast<double>(covered) / studies;
}

TEST(Interval, CoversAboutAsOftenAsItSays) {
  for (const size_t n : {2, 3, 4, 5, 8}) {
    const double median = coverage(n, 1000, median_with_interval);
    EXPECT_GT(median, 0.92) << n;
    EXPECT_LT(median, 0.995) << n;
    const double center = coverage(n, 1000, [](std::span<const double> values) { return symmetric_center(values); });
    EXPECT_GT(center, 0.92) << n;
    EXPECT_LT(center, 0.99) << n;
    RecordProperty("center_" + std::to_string(n), std::to_string(center));
  }
}

}  // namespace stats_test
