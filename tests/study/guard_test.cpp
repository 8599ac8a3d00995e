// Losses against the reference's.
#include "study/guard.h"

#include "ablations/techniques/techniques.h"
#include "tests/study/simulated_losses.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace guard_test {

using namespace study;

TEST(Guard, AllowsTheToleranceAndTheKnownOffset) {
  const double offset = std::log(50304.0 / 50257.0);
  EXPECT_TRUE(guard({10.0, 9.0}, {10.0, 9.0}, 0, 0).passed);
  EXPECT_TRUE(guard({10.8 + offset, 9.0 + 0.8 * offset}, {10.8, 9.0}, 1e-6, offset).passed);
  EXPECT_TRUE(guard({10.8, 9.0}, {10.8 + offset, 9.0 + 0.8 * offset}, 1e-6, -offset).passed);
  EXPECT_FALSE(guard({10.8 + offset, 9.0}, {10.8, 9.0}, 1e-6, 0).passed);
  EXPECT_FALSE(guard({10.8 + 2 * offset, 9.0 + 2 * offset}, {10.8, 9.0}, 1e-4, offset).passed);
  const Guard below = guard({10.0, 8.99, 8.496}, {10.0, 9.0, 8.5}, 1e-3, 0);
  EXPECT_FALSE(below.passed);
  EXPECT_NEAR(*below.deviation, -0.004, 1e-12);
  EXPECT_NEAR(*below.max_deviation, 0.01, 1e-12);
  EXPECT_NE(below.message.find("its loss is 0.0040 nats below the reference's, the median over the first 3 steps"),
            std::string::npos)
      << below.message;
}

// GPT-2 124M (B=1 T=128, float32) with 50,257 columns in the softmax, and by how much more its loss was with 65,536.
const std::vector<double> real_losses{10.925, 10.313, 9.545, 9.729, 9.702, 9.384, 9.271, 9.125,
                                      8.776,  8.552,  8.63,  8.848, 8.012, 7.972, 7.788, 7.946};
const std::vector<double> real_padding{0.266,  0.2649, 0.254, 0.2497, 0.2289, 0.2332, 0.2345, 0.2416,
                                       0.2308, 0.2187, 0.217, 0.1891, 0.1536, 0.1428, 0.1183, 0.1102};

TEST(Guard, PaddingColumnsAreNoLooseBand) {
  const double offset = std::log(65536.0 / 50257.0);
  std::vector<double> padded = real_losses;
  for (size_t i = 0; i < padded.size(); ++i) padded[i] += real_padding[i];
  EXPECT_TRUE(guard(padded, real_losses, 1e-3, offset).passed);
  EXPECT_TRUE(guard(real_losses, padded, 1e-3, -offset).passed);
  for (const double wrong : {offset, -offset}) {
    std::vector<double> losses = padded, unpadded = real_losses;
    for (double& loss : losses) loss += wrong;
    for (double& loss : unpadded) loss += wrong;
    EXPECT_FALSE(guard(losses, real_losses, 1e-2, offset).passed) << wrong;
    EXPECT_FALSE(guard(unpadded, padded, 1e-2, -offset).passed) << wrong;
    EXPECT_FALSE(guard(unpadded, real_losses, 1e-2, 0).passed) << wrong;
  }
}

TEST(Guard, OnlyTheColumnsOfTheSoftmaxesCount) {
  using namespace model;
  const Recipe plain, padded{.vocabulary_rows = 65536},
      fused{.cross_entropy = CrossEntropy::fused, .vocabulary_rows = 65536};
  const double offset = std::log(65536.0 / 50257.0);
  EXPECT_DOUBLE_EQ(expected_losses(padded).offset, offset);
  EXPECT_EQ(expected_losses(plain).offset, 0);
  EXPECT_EQ(expected_losses(fused).offset, 0);
  EXPECT_DOUBLE_EQ(expected_losses(fused, /*of_peer=*/true).offset, offset);  // PyTorch's loss has them all
}

// It goes both ways, as rounding does. A median shows only what is left of it.
TEST(Guard, NoiseOfMeanZeroIsFoundOnlyIfItIsLarge) {
  EXPECT_LT(simulated::voided_by_noise(1000, 0.01, 1e-2), 0.01);  // at every step as large as what is allowed
  EXPECT_LT(simulated::voided_by_noise(1000, 0.03, 1e-2), 0.5);
  EXPECT_GT(simulated::voided_by_noise(1000, 0.3, 1e-2), 0.9);
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

TEST(Guard, TheToleranceFollowsTheNumberTypes) {
  using namespace model;
  const Recipe float32, bf16{.autocast = Autocast::bf16}, tf32{.matmul_precision = MatmulPrecision::high},
      flash{.attention = Attention::flash, .optimizer = Optimizer::fused};
  EXPECT_EQ(expected_losses(flash).tolerance, expected_losses(float32).tolerance);
  EXPECT_LT(expected_losses(float32).tolerance, expected_losses(tf32).tolerance);
  EXPECT_LT(expected_losses(tf32).tolerance, expected_losses(bf16).tolerance);
  // The wider one counts of two, wherever the ladder began.
  const auto rung = [](const Recipe& recipe) {
    return Rung{.recipe = model::to_json(recipe), .losses = expected_losses(recipe)};
  };
  const RunsByRepeat runs{{0, RunData{.losses = {10.0, 9.0}}}};
  for (const auto& [own, its] : {std::pair(bf16, float32), std::pair(float32, bf16), std::pair(bf16, bf16)}) {
    EXPECT_EQ(guard_rung(rung(own), runs, rung(its), runs).tolerance, expected_losses(bf16).tolerance);
  }
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

namespace command_guard_test {

// Losses of commands against the first command's, without a limit from the user.

using namespace study;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// A run that printed losses every so many steps; the first line's loss is not kept.
RunData run_with(std::vector<double> losses, int64_t every = 1, int64_t first = 0) {
  RunData run;
  run.command.emplace();
  for (int64_t i = 0; i <= std::ssize(losses); ++i) run.command->steps.push_back(first + i * every);
  run.loss_steps.assign(run.command->steps.begin() + 1, run.command->steps.end());
  run.losses = std::move(losses);
  return run;
}

std::vector<double> falling(double more = 0, size_t count = 20) {
  std::vector<double> losses;
  for (size_t i = 0; i < count; ++i) losses.push_back(4.0 - 0.1 * static_cast<double>(i) + more);
  return losses;
}

RunsByRepeat runs(std::vector<RunData> each) {
  RunsByRepeat runs;
  for (size_t i = 0; i < each.size(); ++i) runs[static_cast<int64_t>(i)] = std::move(each[i]);
  return runs;
}

TEST(CommandGuard, EqualLossesAreTheSame) {
  const auto same = guard_command(runs({run_with(falling())}), runs({run_with(falling())}));
  ASSERT_TRUE(same.verdict);
  EXPECT_TRUE(same.verdict->passed);
  EXPECT_EQ(same.verdict->steps, 16);
  EXPECT_EQ(same.words, "the same (0 off at steps 1 to 16, limit 0.00325)");  // a thousandth of 3.25
}

TEST(CommandGuard, AThousandthOfTheLossIsAllowed) {
  const RunsByRepeat first = runs({run_with(falling())});
  EXPECT_TRUE(guard_command(runs({run_with(falling(0.003))}), first).verdict->passed);
  const auto off = guard_command(runs({run_with(falling(-0.004))}), first);
  EXPECT_FALSE(off.verdict->passed);
  EXPECT_NEAR(*off.verdict->deviation, -0.004, 1e-9);
  EXPECT_EQ(off.words,
            "other losses: 0.004 off at steps 1 to 16, limit 0.00325; the two are different trainings (--losses free "
            "compares their times all the same)");
}

TEST(CommandGuard, TheMeanOfTheRunsDecides) {
  const RunsByRepeat first = runs({run_with(falling()), run_with(falling())});
  EXPECT_TRUE(guard_command(runs({run_with(falling(0.004)), run_with(falling(0.001))}), first).verdict->passed);
  const auto off = guard_command(runs({run_with(falling()), run_with(falling(0.008))}), first);
  EXPECT_FALSE(off.verdict->passed);
  EXPECT_NEAR(*off.verdict->deviation, 0.004, 1e-9);
  EXPECT_NEAR(*off.verdict->max_deviation, 0.008, 1e-9);
  EXPECT_EQ(off.verdict->repeat, 1) << "the one that is furthest off";
}

TEST(CommandGuard, WhatTheFirstsOwnRunsDifferByIsAllowed) {
  const RunsByRepeat first =
      runs({run_with(falling()), run_with(falling(0.002)), run_with(falling(0.004)), run_with(falling(0.006))});
  const auto shifted = [&](double more) {
    RunsByRepeat second = first;
    for (auto& [repeat, run] : second) {
      for (double& loss : run.losses) loss += more;
    }
    return guard_command(second, first);
  };
  const double apart = std::sqrt((3 * 0.002 * 0.002 + 2 * 0.004 * 0.004 + 0.006 * 0.006) / 6);
  const double allowed = 5.8409 * apart / 2;  // 99 % of Student's t with 3 degrees of freedom
  EXPECT_NEAR(shifted(0).verdict->tolerance, allowed, 1e-6);
  EXPECT_TRUE(shifted(0.99 * allowed).verdict->passed);
  EXPECT_FALSE(shifted(1.01 * allowed).verdict->passed);
}

TEST(CommandGuard, ALimitOverAHundredthTellsNothing) {
  const RunsByRepeat first = runs({run_with(falling()), run_with(falling(0.001))});
  const auto unknown = guard_command(runs({run_with(falling()), run_with(falling())}), first);
  EXPECT_FALSE(unknown.verdict);
  EXPECT_EQ(unknown.words, "not comparable in 2 runs: the first command's own are 0.001 apart; seed it");
  EXPECT_TRUE(guard_command(runs({run_with(falling()), run_with(falling())}),
                            runs({run_with(falling()), run_with(falling(0.0005))}))
                  .verdict);
}

TEST(CommandGuard, ComparesTheStepsThatBothPrinted) {
  const auto every = [](int64_t steps) {
    std::vector<double> losses;
    for (int64_t i = 1; i <= 12; ++i) losses.push_back(10.0 / static_cast<double>(i * steps + 10));
    return losses;
  };
  const auto common = guard_command(runs({run_with(every(2), 2)}), runs({run_with(every(3), 3)}));
  ASSERT_TRUE(common.verdict);
  EXPECT_TRUE(common.verdict->passed) << common.words;
  EXPECT_EQ(common.verdict->steps, 4);
  EXPECT_TRUE(common.words.starts_with("the same (0 off at steps 6 to 24")) << common.words;
  const auto none = guard_command(runs({run_with(falling(), 2, 1)}), runs({run_with(falling(), 2, 0)}));
  EXPECT_FALSE(none.verdict);
  EXPECT_EQ(none.words, "not checked: the commands print no step in common");
}

TEST(CommandGuard, ALossThatIsNotFiniteFails) {
  std::vector<double> bad = falling();
  bad[5] = nan;
  for (const auto& [of, first] : {std::pair{runs({run_with(falling()), run_with(bad)}), runs({run_with(falling())})},
                                  {runs({run_with(bad), run_with(falling())}), runs({run_with(falling())})},
                                  {runs({run_with(falling())}), runs({run_with(bad)})}}) {
    const auto verdict = guard_command(of, first);
    ASSERT_TRUE(verdict.verdict);
    EXPECT_FALSE(verdict.verdict->passed);
    EXPECT_FALSE(verdict.verdict->deviation);
    EXPECT_EQ(verdict.words, "a loss of one of the two is not finite");
  }
  // A bad run of the first command, which is void itself, does not widen what is allowed.
  const auto off = guard_command(runs({run_with(falling(0.01))}), runs({run_with(falling()), run_with(bad)}));
  EXPECT_FALSE(off.verdict->passed);
  EXPECT_NEAR(off.verdict->tolerance, 0.00325, 1e-6);
}

TEST(CommandGuard, WithoutLossesNothingIsChecked) {
  for (const bool first_has : {true, false}) {
    RunData with = run_with(falling()), without = run_with(falling());
    without.losses.clear();
    const auto verdict = guard_command(runs({first_has ? without : with}), runs({first_has ? with : without}));
    EXPECT_FALSE(verdict.verdict);
    EXPECT_EQ(verdict.words, "none read, not guarded");
  }
}

}  // namespace command_guard_test
