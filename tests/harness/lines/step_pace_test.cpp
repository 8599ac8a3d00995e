#include "harness/lines/step_pace.h"

#include <gtest/gtest.h>

#include <vector>

namespace step_pace_test {

using harness::Pace;
using harness::StepLine;
using harness::StepWindow;

TEST(StepMs, OfALineIsItsIntervalOverItsSteps) {
  EXPECT_EQ(harness::step_ms_of({0, 1, 11}, {1.0, 1.5, 2.5}), (std::vector<double>{500, 100}));
  EXPECT_TRUE(harness::step_ms_of({7}, {1.0}).empty());
}

TEST(StepMs, OfLinesOfOneReadIsTheMeanSinceTheReadBefore) {
  EXPECT_EQ(harness::step_ms_of({0, 1, 2, 3, 4, 5}, {1, 1, 2, 2, 2, 2.5}),
            (std::vector<double>{harness::least_step_ms, 1000.0 / 3, 1000.0 / 3, 1000.0 / 3, 500}));
}

std::vector<StepLine> lines_at(const std::vector<double>& seconds, bool numbered = true) {
  std::vector<StepLine> lines;
  for (const double one : seconds) lines.push_back({.seconds = one, .step = std::ssize(lines), .numbered = numbered});
  return lines;
}

TEST(StepPace, SeesBurstsAndClocks) {
  std::vector<double> even, bursts, clock, pauses;
  for (int i = 0; i < 60; ++i) {
    even.push_back(0.02 * i + (i % 3) * 1e-4);
    bursts.push_back(0.25 * (i / 10) + 1e-5 * (i % 10));
    clock.push_back(0.1 * i + (i % 2) * 2e-4);
    pauses.push_back(0.02 * i + 0.5 * (i / 20));
  }
  EXPECT_FALSE(harness::pace_of(lines_at(even)).pace.has_all());
  EXPECT_FALSE(harness::pace_of(lines_at(pauses)).pace.has_all());
  EXPECT_EQ(harness::pace_of(lines_at(pauses)).doubt, "");
  EXPECT_GT(harness::pace_of(lines_at(bursts)).pace.burst_s, 0);
  EXPECT_TRUE(harness::pace_of(lines_at({bursts.begin(), bursts.begin() + 20})).needs_more);
  EXPECT_NE(harness::pace_of(lines_at(clock, /*numbered=*/false)).doubt.find("every 100 ms"), std::string::npos);
  EXPECT_FALSE(harness::pace_of(lines_at(clock)).pace.has_all()) << "one step a tick is a step of 100 ms";
}

TEST(StepWindow, BeginsAndEndsWithABurst) {
  StepWindow window(5, 20, Pace{.burst_s = 0.01}, /*counts_lines=*/false);
  int i = 0;
  for (; !window.is_full() && i < 1000; ++i) window.take({.seconds = 0.25 * (i / 10) + 1e-5 * (i % 10), .step = i});
  EXPECT_EQ(window.lines()[window.first_timed()].step, 9);
  EXPECT_EQ(window.lines().back().step, 89);  // eight bursts
  for (const double ms : window.timed_ms()) EXPECT_NEAR(ms, 25, 1e-9);
  StepWindow blocks(5, 20, Pace{.block_s = 1}, /*counts_lines=*/false);
  for (i = 0; !blocks.is_full() && i < 1000; ++i) blocks.take({.seconds = 0.1 * (i * 3 / 4), .step = i});
  for (const double ms : blocks.timed_ms()) EXPECT_NEAR(ms, 75, 8);
  StepWindow samples(5, 20, Pace{}, /*counts_lines=*/true);
  for (i = 0; !samples.is_full() && i < 1000; ++i) samples.take({.seconds = 0.1 * i, .step = 640 * i});
  EXPECT_EQ(samples.lines().back().step, 640 * 25);
}

}  // namespace step_pace_test
