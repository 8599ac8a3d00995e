// Non-inferiority by confidence interval, against intervals that were worked out by hand.
#include "harness/stats/non_inferiority.h"

#include <gtest/gtest.h>

#include <vector>

namespace non_inferiority_test {

using namespace harness;
using Losses = std::vector<double>;

TEST(NonInferiority, ComparesStudentsIntervalWithTheMargin) {
  // Differences 0.01, 0.02, 0.03: mean 0.02, s = 0.01, t with 2 degrees of freedom 4.302653, so the half width is
  // 4.302653 x 0.01 / sqrt(3) = 0.0248414, and the interval is [-0.0048414, 0.0448414].
  const Losses reference{5.0, 5.1, 4.9}, losses{5.01, 5.12, 4.93};
  const QualityTest test = test_quality(losses, reference, 0.05);
  EXPECT_NEAR(test.difference.center, 0.02, 1e-12);
  EXPECT_NEAR(test.difference.interval->lo, -0.0048414, 1e-6);
  EXPECT_NEAR(test.difference.interval->hi, 0.0448414, 1e-6);
  EXPECT_EQ(test.difference.n, 3);
  EXPECT_EQ(test.quality, Quality::same);
  EXPECT_EQ(test_quality(losses, reference, 0.045).quality, Quality::same);
  EXPECT_EQ(test_quality(losses, reference, 0.0447).quality, Quality::unclear);  // inside the interval
}

TEST(NonInferiority, IsWorseOnlyWhereTheWholeIntervalIsAboveTheMargin) {
  // The same differences and 0.1 more: [0.0951586, 0.1448414].
  const Losses reference{5.0, 5.1, 4.9}, losses{5.11, 5.22, 5.03};
  EXPECT_EQ(test_quality(losses, reference, 0.095).quality, Quality::worse);
  EXPECT_EQ(test_quality(losses, reference, 0.096).quality, Quality::unclear);
  EXPECT_EQ(test_quality(losses, reference, 0.145).quality, Quality::same);
}

TEST(NonInferiority, WhatSeedsShareDoesNotWidenTheInterval) {
  // Seeds differ by whole nats, the pairs not at all.
  const QualityTest test = test_quality(Losses{3, 5, 9}, Losses{3, 5, 9}, 0.001);
  EXPECT_EQ(test.difference.center, 0);
  EXPECT_EQ(test.difference.interval->lo, 0);
  EXPECT_EQ(test.difference.interval->hi, 0);
  EXPECT_EQ(test.quality, Quality::same);
}

TEST(NonInferiority, ALowerLossIsNotWorse) {
  EXPECT_EQ(test_quality(Losses{4, 4.1}, Losses{5, 5.1}, 0.02).quality, Quality::same);
}

TEST(NonInferiority, OneSeedHasNoInterval) {
  const QualityTest test = test_quality(Losses{5}, Losses{5}, 0.02);
  EXPECT_EQ(test.quality, Quality::too_few);
  EXPECT_FALSE(test.difference.interval);
}

}  // namespace non_inferiority_test
