// Searches on a machine whose timing is programmed. docs/bisect.md has more of them (bisection_table.cpp). Seeds are
// fixed, so every share here is the same in every run.
#include "tests/harness/stats/simulated_search.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

namespace bisection_test {

using namespace harness;
using simulated::bisect;
using simulated::CommitList;
using simulated::Searched;
using simulated::Troubles;

struct Share {
  int right = 0;
  double runs = 0;
};

Share searches(int count, const Troubles& troubles, const std::function<CommitList(size_t)>& make,
               const std::function<bool(const CommitList&, const Searched&)>& is_right) {
  Share share;
  for (int i = 0; i < count; ++i) {
    const CommitList list = make(static_cast<size_t>(i));
    const Searched searched = bisect(list, troubles, static_cast<uint64_t>(i) + 1);
    share.right += is_right(list, searched) ? 1 : 0;
    share.runs += static_cast<double>(searched.runs) / count;
  }
  return share;
}

bool names_the_change(const CommitList& list, const Searched& searched) {
  return searched.last.verdict == Bisected::one && searched.found().front() == list.changes.front().first;
}

CommitList planted(size_t i) { return {.changes = {{1 + i * 37 % 64, 0.03}}}; }

TEST(Bisection, FindsACommitInFewerRunsThanGitBisect) {
  const Share share = searches(40, {}, planted, names_the_change);
  EXPECT_GE(share.right, 37);
  EXPECT_LE(share.runs, 57);  // 60 % of six steps of eight pairs
}

TEST(Bisection, IsNotMisledByAMachineThatDriftsOrJumps) {
  EXPECT_GE(searches(20, {.name = "", .drift = 0.1}, planted, names_the_change).right, 18);
  EXPECT_GE(searches(20, {.name = "", .jump = 0.1, .jump_at = 0.4}, planted, names_the_change).right, 18);
  EXPECT_GE(searches(20, {.name = "", .heavy_tails = true}, planted, names_the_change).right, 18);
}

TEST(Bisection, FindsAnImprovement) {
  EXPECT_GE(searches(
                10, {},
                [](size_t i) {
                  return CommitList{.changes = {{1 + i * 37 % 64, -0.03}}};
                },
                names_the_change)
                .right,
            9);
}

TEST(Bisection, NamesTwoChanges) {
  const auto two = [](size_t i) { return CommitList{.changes = {{5 + i, 0.04}, {40 - i, 0.03}}}; };
  const Share share = searches(10, {}, two, [](const CommitList& list, const Searched& searched) {
    return searched.found() == std::vector<size_t>{list.changes[0].first, list.changes[1].first};
  });
  EXPECT_GE(share.right, 8);
}

TEST(Bisection, FindsNoCommitWhereEveryOneTakesALittle) {
  const Share share = searches(
      10, {}, [](size_t) { return CommitList{.steps = 0.05}; },
      [](const CommitList&, const Searched& searched) { return searched.last.verdict == Bisected::steps; });
  EXPECT_GE(share.right, 9);
}

TEST(Bisection, FindsNoCommitWithoutADifference) {
  const Share share = searches(
      40, {}, [](size_t) { return CommitList{}; },
      [](const CommitList&, const Searched& searched) { return searched.last.verdict == Bisected::same; });
  EXPECT_GE(share.right, 38);
  EXPECT_LE(share.runs, 30);
}

TEST(Bisection, NamesTheCommitsThatCannotBeMeasured) {
  const CommitList list{.commits = 9, .changes = {{5, 0.05}}, .broken = {4, 5, 7}};
  const Searched searched = bisect(list, {}, 1);
  ASSERT_EQ(searched.last.verdict, Bisected::one);
  const size_t place = searched.last.suspects.alone.place;
  EXPECT_EQ(searched.alive[place - 1], 3u);
  EXPECT_EQ(searched.alive[place], 6u);
}

TEST(Bisection, HasAProbabilityForEveryCommit) {
  const std::vector<PlaceTime> runs{{0, 0},    {8, 0.031},  {8, 0.029}, {0, 0.001},
                                    {4, 0.03}, {0, -0.001}, {8, 0.03},  {2, 0}};
  const Suspects suspects = suspects_of(runs, std::vector<double>(9, 1));
  EXPECT_NEAR(std::accumulate(suspects.one.begin(), suspects.one.end(), suspects.none + suspects.two + suspects.steps),
              1, 1e-9);
  EXPECT_EQ(suspects.measured, (std::vector<size_t>{0, 2, 4, 8}));
  EXPECT_DOUBLE_EQ(suspects.one[3], suspects.one[4]);
  EXPECT_GT(suspects.one[3], 10 * suspects.one[2]);
  EXPECT_GT(suspects.one[3], 10 * suspects.one[5]);
  EXPECT_NEAR(suspects.alone.size, 0.03, 0.003);
}

// A program may say its times itself, without any noise.
TEST(Bisection, HandlesTimesWithoutNoise) {
  const Searched searched = bisect({.commits = 16, .changes = {{11, 0.05}}},
                                   {.name = "", .run_noise = 0, .step_noise = 0, .slow_steps = 0}, 1);
  EXPECT_EQ(searched.found(), std::vector<size_t>{11});
}

TEST(Bisection, OfTwoPlacesNeedsNoSearch) {
  const Searched searched = bisect({.commits = 1, .changes = {{1, 0.05}}}, {}, 1);
  EXPECT_EQ(searched.found(), std::vector<size_t>{1});
}

TEST(Bisection, EndsWhenTheRunsAreMade) {
  const Searched searched = bisect(planted(1), {.name = "", .run_noise = 0.05}, 1, 20);
  EXPECT_EQ(searched.last.verdict, Bisected::open);
  EXPECT_EQ(searched.runs, 20u);
}

}  // namespace bisection_test
