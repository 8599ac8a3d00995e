#include "harness/lines/rank_steps.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace rank_steps_test {

using harness::LogLine;
using harness::RankReader;
using harness::RankSteps;
using harness::SlowRank;
using harness::StepLine;

// A line of two ranks' output, and when it came.
struct Printed {
  std::string text;
  double seconds;
};

std::vector<StepLine> read(const std::vector<Printed>& printed) {
  harness::TrialLines trial;
  for (const Printed& one : printed) trial.take(0, one.text + "\n", one.seconds);
  const auto learned = trial.learned();
  if (!learned) return {};
  RankReader reader(*learned->format);
  std::vector<StepLine> steps;
  const auto add = [&](const std::vector<StepLine>& more) { steps.insert(steps.end(), more.begin(), more.end()); };
  for (const Printed& one : printed) add(reader.take(LogLine{.text = one.text, .seconds = one.seconds}));
  add(reader.end());
  return steps;
}

// Rank 1 is 0.4 s behind, rank 0 has the losses. `first`: the rank whose line stands above.
std::vector<Printed> of_two_ranks(const std::vector<std::string>& tags, double behind_s) {
  std::vector<Printed> printed;
  for (int step = 1; step <= 8; ++step) {
    for (const size_t rank : {0, 1}) {
      const double late_s = rank == 1 ? behind_s : 0;
      printed.push_back({fmt::format("{}step {} loss {}.{}", tags[rank], step, step, rank == 0 ? 5 : 7),
                         static_cast<double>(step) + late_s});
    }
  }
  std::ranges::stable_sort(printed, {}, &Printed::seconds);
  return printed;
}

TEST(RankSteps, EndWithTheLastRanksLine) {
  for (const auto& tags : {std::vector<std::string>{"[rank0]: ", "[rank1]: "},
                           {"[default0]:", "[default1]:"},
                           {"0: ", "1: "},
                           {" 0: ", "10: "},
                           {"[1,0]<stdout>: ", "[1,1]<stdout>: "},
                           {"worker-0: ", "worker-1: "},
                           {"[Rank 0] ", "[Rank 1] "},
                           {"", ""}}) {
    for (const double behind_s : {0.4, -0.4, 1.4}) {  // behind, ahead, more than a step behind
      const std::vector<StepLine> steps = read(of_two_ranks(tags, behind_s));
      ASSERT_EQ(steps.size(), 8U) << tags[0] << behind_s;
      for (size_t i = 0; i < steps.size(); ++i) {
        const auto step = static_cast<double>(i + 1);
        EXPECT_EQ(steps[i].loss, step + 0.5) << tags[0];
        EXPECT_NEAR(steps[i].seconds, step + std::max(behind_s, 0.0), 1e-9) << tags[0] << behind_s;
        EXPECT_TRUE(tags[0].empty() || std::abs(steps[i].lowest_s - step) < 1e-9) << tags[0];
      }
    }
  }
}

// A table without words in its rows, whose head is printed once.
TEST(RankSteps, HaveOneHeading) {
  std::vector<Printed> printed{{"rank,step,loss", 0}};
  for (int step = 1; step <= 8; ++step) {
    for (const int rank : {0, 1})
      printed.push_back({fmt::format("{},{},{}.{}", rank, step, step, 5 + 2 * rank), 2.0 * step + rank});
  }
  const std::vector<StepLine> steps = read(printed);
  ASSERT_EQ(steps.size(), 8U);
  EXPECT_EQ(steps[3].loss, 4.5);
  EXPECT_EQ(steps[3].seconds, 9);
}

StepLine line(int64_t step, double seconds) { return {.seconds = seconds, .step = step}; }

TEST(RankSteps, ASlowRankIsWaitedForAndASilentOneIsNot) {
  RankSteps ranks(0, 2);
  ranks.add(0, {line(0, 0)});
  EXPECT_TRUE(ranks.take().empty());  // the other one has not come yet
  ranks.add(1, {line(0, 3)});
  ASSERT_EQ(ranks.take().size(), 1U);
  for (int step = 1; step <= 100; ++step) {  // half as fast
    ranks.add(0, {line(step, step)});
    if (step % 2 == 0) ranks.add(1, {line(step / 2, step)});
  }
  const auto steps = ranks.take();
  ASSERT_EQ(steps.size(), 50U);
  EXPECT_EQ(steps.back().seconds, 100);
  for (int step = 101; step <= 120; ++step) ranks.add(0, {line(step, step)});
  EXPECT_EQ(ranks.take().size(), 70U);  // it may have ended

  RankSteps alone(0, 2);  // of two that were told of
  for (int step = 0; step < 15; ++step) alone.add(0, {line(step, step)});
  EXPECT_TRUE(alone.take().empty());
  alone.add(0, {line(15, 15)});
  EXPECT_EQ(alone.take().size(), 16U);
  alone.add(0, {line(16, 16)});
  EXPECT_EQ(alone.take().size(), 1U);
}

TEST(RankSteps, TheLongestWaitForInputCounts) {
  RankSteps ranks(0, 3);
  ranks.add(2, {{.seconds = 1, .step = 0, .wait_ms = 9}, {.seconds = 2, .step = 1}});
  ranks.add(1, {line(0, 1), line(1, 2)});
  ranks.add(0, {{.seconds = 1, .step = 0, .wait_ms = 2}, {.seconds = 2, .step = 1}});
  const auto steps = ranks.take();
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].wait_ms, 9);
  EXPECT_FALSE(steps[1].wait_ms);
}

TEST(RankSteps, NoTimeGoesBack) {
  RankSteps ranks(0, 2);
  ranks.add(1, {line(0, 9)});
  ranks.add(0, {line(0, 1), line(1, 2)});
  ASSERT_EQ(ranks.take().size(), 1U);
  const auto rest = ranks.end();  // rank 1 never made this step
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0].seconds, 9);
}

// Steps of a second of four ranks. seconds(rank, step): when it prints.
std::optional<SlowRank> slowest_of(auto seconds, double least_lag_s = 0) {
  RankSteps ranks(0, 4);
  for (int step = 0; step <= 40; ++step) {
    for (const int rank : {0, 1, 2, 3}) ranks.add(rank, {line(step, seconds(rank, step))});
  }
  EXPECT_EQ(ranks.seen(), 4);
  return ranks.slowest(5, 40, least_lag_s);
}

// Each step of each rank takes another time, and all wait for the last one.
TEST(RankSteps, RanksThatWaitForEachOtherAreEven) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> late(0, 0.2);
    std::vector<double> begun(42, 0);
    const auto even = slowest_of([&](int rank, int step) {
      if (rank == 0) begun[static_cast<size_t>(step) + 1] = begun[static_cast<size_t>(step)] + 1 + late(random);
      return begun[static_cast<size_t>(step)] + late(random);
    });
    EXPECT_FALSE(even) << seed << ": rank " << even->rank << " " << even->behind;
  }
  // One of them stood still once, and the others did not: a pause is no pace.
  EXPECT_FALSE(slowest_of([](int rank, int step) { return step + (rank == 2 && step > 20 ? 3 : 0); })
                   .value_or(SlowRank{})
                   .takes_longer);
  // Less than a step apart in the end, as ranks that wait may be.
  EXPECT_FALSE(
      slowest_of([](int rank, int step) { return step * (rank == 2 ? 1.02 : 1); }).value_or(SlowRank{}).takes_longer);
  // Of short steps that somebody hands on in bursts, ten times a second.
  EXPECT_FALSE(slowest_of(
      [](int rank, int step) { return 0.1 * std::ceil(0.03 * step / 0.1 + 0.2 * rank) + 1e-5 * (step + rank); }, 0.2));
  // Somebody reads their lines ten times a second.
  EXPECT_FALSE(slowest_of([](int rank, int step) { return 0.5 * step + 0.024 * rank; }, 0.2));
  EXPECT_TRUE(slowest_of([](int rank, int step) { return 0.5 * step + (rank == 3 ? 0.08 : 0); }, 0));
}

TEST(RankSteps, ASlowOneIsNamed) {
  const auto longer = slowest_of([](int rank, int step) { return step * (rank == 3 ? 1.04 : 1.0); });
  ASSERT_TRUE(longer);
  EXPECT_EQ(longer->rank, 3);
  EXPECT_TRUE(longer->takes_longer);
  EXPECT_NEAR(longer->behind, 0.04, 1e-6);
  const auto later = slowest_of([](int rank, int step) { return step + (rank == 2 ? 0.15 : rank == 1 ? 0.12 : 0); });
  ASSERT_TRUE(later);
  EXPECT_EQ(later->rank, 2);
  EXPECT_FALSE(later->takes_longer);
  EXPECT_NEAR(later->behind, 0.15, 1e-6);
}

TEST(RankSteps, RanksOfStrangersAreBounded) {
  std::vector<Printed> printed = of_two_ranks({"[rank0]: ", "[rank1]: "}, 0.4);
  const auto learned = [&] {
    harness::TrialLines trial;
    for (const Printed& one : printed) trial.take(0, one.text + "\n", one.seconds);
    return trial.learned();
  }();
  ASSERT_TRUE(learned);
  RankReader reader(*learned->format);
  for (int i = 0; i < 10'000; ++i) {
    (void)reader.take(LogLine{.text = fmt::format("[rank{}]: step {} loss 1", i, i % 7), .seconds = 1});
  }
  EXPECT_LE(reader.ranks().seen(), 4096);
}

}  // namespace rank_steps_test
