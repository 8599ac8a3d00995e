// Losses against the reference's.
#include "ablations/study/guard.h"

#include "ablations/techniques/techniques.h"

#include <gtest/gtest.h>

#include <cmath>

namespace guard_test {

using namespace ablations;

TEST(Guard, AllowsTheToleranceAndTheKnownOffset) {
  const double offset = std::log(50304.0 / 50257.0);
  EXPECT_TRUE(guard({10.0, 9.0}, {10.0, 9.0}, 0, 0).passed);
  EXPECT_TRUE(guard({10.0 + offset, 9.0}, {10.0, 9.0}, 1e-6, offset).passed);
  EXPECT_FALSE(guard({10.0 + offset, 9.0}, {10.0, 9.0}, 1e-6, 0).passed);
  EXPECT_FALSE(guard({10.0, 9.0 + 2 * offset}, {10.0, 9.0}, 1e-4, offset).passed);
  const Guard below = guard({10.0, 8.99, 8.496}, {10.0, 9.0, 8.5}, 1e-3, offset);
  EXPECT_FALSE(below.passed);
  EXPECT_NEAR(*below.deviation, -0.004, 1e-12);
  EXPECT_NEAR(*below.max_deviation, 0.01, 1e-12);
  EXPECT_NE(below.message.find("its loss is 0.0040 nats below the reference's, the median over the first 3 steps"),
            std::string::npos)
      << below.message;
}

TEST(Guard, OneSensitiveStepDecidesNothing) {
  // What a right bf16 program does at GPT-2's size: far off at step 5, and back.
  const std::vector<double> reference(13, 8.0);
  std::vector<double> losses = reference;
  losses[4] += 0.0517;
  losses[5] += 0.03;
  losses[6] -= 0.012;
  const Guard verdict = guard(losses, reference, 1e-2, 0);
  EXPECT_TRUE(verdict.passed) << verdict.message;
  EXPECT_NEAR(*verdict.max_deviation, 0.0517, 1e-12);
}

TEST(Guard, LateStepsDriftAndDecideNothing) {
  const std::vector<double> reference(40, 8.0);
  std::vector<double> losses = reference;
  for (size_t step = judged_steps; step < losses.size(); ++step) losses[step] += 0.045;
  EXPECT_TRUE(guard(losses, reference, 1e-2, 0).passed);
  losses.back() = INFINITY;
  EXPECT_FALSE(guard(losses, reference, 1e-2, 0).passed);
}

TEST(Guard, NoStepMayBeFurtherOffThanRoundingEverIs) {
  const std::vector<double> reference(40, 8.0);
  std::vector<double> losses = reference;
  losses[30] = 8.4;
  EXPECT_TRUE(guard(losses, reference, 1e-2, 0).passed);
  losses[30] = 8.6;
  const Guard verdict = guard(losses, reference, 1e-2, 0);
  EXPECT_FALSE(verdict.passed);
  EXPECT_NE(verdict.message.find("step 31 is 0.60 nats off"), std::string::npos) << verdict.message;
}

TEST(Guard, ASmallDeviationThatStaysDoes) {
  std::vector<double> reference(13, 8.0), above(13, 8.015), below(13, 7.985);
  above[0] = below[0] = 8.0;  // the same weights
  EXPECT_FALSE(guard(above, reference, 1e-2, 0).passed);
  EXPECT_FALSE(guard(below, reference, 1e-2, 0).passed);
}

TEST(Guard, LetsARunLagByTheStepsThatItsScalerSkipped) {
  const std::vector<double> reference{10.0, 9.0, 8.0, 7.5}, one_behind{10.0, 10.0, 9.0, 8.0};
  EXPECT_FALSE(guard(one_behind, reference, 1e-3, 0).passed);
  EXPECT_TRUE(guard(one_behind, reference, 1e-3, 0, /*skipped=*/1).passed);
  EXPECT_FALSE(guard({10.0, 10.0, 10.0, 9.0}, reference, 1e-3, 0, 1).passed);  // two behind
  EXPECT_FALSE(guard({9.0, 8.0, 7.5, 7.2}, reference, 1e-3, 0, 1).passed);     // ahead
}

TEST(Guard, ALossThatIsNotFiniteFails) {
  const Guard verdict = guard({10.0, std::nan("")}, {10.0, 9.0}, 1, 0);
  EXPECT_FALSE(verdict.passed);
  EXPECT_FALSE(verdict.deviation || verdict.max_deviation);
  EXPECT_NE(verdict.message.find("step 2 is not finite"), std::string::npos);
  EXPECT_FALSE(guard({10.0, 9.0}, {10.0, std::nan("")}, 1, 0).passed);
  EXPECT_FALSE(guard({}, {}, 1, 0).passed);
}

TEST(Guard, TheToleranceFollowsTheNumberTypesOfTheTwoRecipes) {
  using namespace model;
  const Recipe float32, bf16{.autocast = Autocast::bf16}, tf32{.matmul_precision = MatmulPrecision::high},
      flash{.attention = Attention::flash, .optimizer = Optimizer::fused};
  EXPECT_EQ(tolerance_between(float32, flash), tolerance_between(float32, float32));
  EXPECT_EQ(tolerance_between(bf16, float32), tolerance_between(float32, bf16));
  // Two that both round to bfloat16 are held to that, wherever the ladder began.
  EXPECT_EQ(tolerance_between(bf16, bf16), tolerance_between(bf16, float32));
  EXPECT_LT(tolerance_between(float32, float32), tolerance_between(tf32, float32));
  EXPECT_LT(tolerance_between(tf32, float32), tolerance_between(bf16, float32));
}

TEST(Guard, TheWorstRunIsTheOneThatIsTypicallyFurthestOff) {
  RunsByRepeat runs, reference;
  for (int64_t repeat = 0; repeat < 3; ++repeat) reference[repeat].losses = {10.0, 9.0, 8.0};
  runs[0].losses = {10.0, 9.0, 8.0};
  runs[1].losses = {10.0, 9.2, 7.8};  // far off at two steps, in both directions
  runs[2].losses = {10.002, 9.002, 8.002};
  const Guard worst = worst_of(runs, reference, 1e-3, 0);
  EXPECT_EQ(worst.repeat, 2);
  EXPECT_FALSE(worst.passed);
  runs[0].losses = {10.0, NAN, 8.0};
  EXPECT_EQ(worst_of(runs, reference, 1e-3, 0).repeat, 0);
}

}  // namespace guard_test
