// Losses of commands against the first command's, without a limit from the user.
#include "study/command_guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace command_guard_test {

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
