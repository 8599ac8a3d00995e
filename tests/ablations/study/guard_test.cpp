// Losses against the reference's.
#include "ablations/study/guard.h"

#include <gtest/gtest.h>

#include <cmath>

namespace {

using namespace ablations;

TEST(Guard, AllowsTheToleranceAndTheKnownOffset) {
  const double offset = std::log(50304.0 / 50257.0);
  EXPECT_TRUE(guard({10.0, 9.0}, {10.0, 9.0}, 0, 0).passed);
  EXPECT_TRUE(guard({10.0 + offset, 9.0}, {10.0, 9.0}, 1e-6, offset).passed);
  EXPECT_FALSE(guard({10.0 + offset, 9.0}, {10.0, 9.0}, 1e-6, 0).passed);
  EXPECT_FALSE(guard({10.0, 9.0 + 2 * offset}, {10.0, 9.0}, 1e-4, offset).passed);
  EXPECT_FALSE(guard({10.0, 8.99}, {10.0, 9.0}, 1e-3, offset).passed);
  EXPECT_NEAR(*guard({10.0, 8.99}, {10.0, 9.0}, 1e-3, offset).max_deviation, 0.01, 1e-12);
}

TEST(Guard, LetsARunLagByTheStepsThatItsScalerSkipped) {
  const std::vector<double> reference{10.0, 9.0, 8.0, 7.5}, one_behind{10.0, 10.0, 9.0, 8.0};
  EXPECT_FALSE(guard(one_behind, reference, 1e-3, 0).passed);
  EXPECT_TRUE(guard(one_behind, reference, 1e-3, 0, /*skipped=*/1).passed);
  EXPECT_FALSE(guard({10.0, 10.0, 10.0, 9.0}, reference, 1e-3, 0, 1).passed);  // two behind
  EXPECT_FALSE(guard({10.0, 9.0, 8.0, 7.0}, reference, 1e-3, 0, 1).passed);    // ahead
}

TEST(Guard, ALossThatIsNotFiniteFails) {
  const Guard verdict = guard({10.0, std::nan("")}, {10.0, 9.0}, 1, 0);
  EXPECT_FALSE(verdict.passed);
  EXPECT_FALSE(verdict.max_deviation);
  EXPECT_NE(verdict.message.find("step 2 is not finite"), std::string::npos);
}

}  // namespace
