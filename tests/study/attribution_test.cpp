// What each optimization is worth, from planted times whose answers are worked out by hand.
#include "study/attribution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <tuple>

namespace attribution_test {

using namespace study;

TEST(Shapley, OfFactorsThatMultiplyIsEachFactorsOwn) {
  // a makes a step 2 times as fast, b 3 times, c 1.5 times, whatever else is on.
  const std::vector<double> gains{std::log(2), std::log(3), std::log(1.5)};
  std::vector<double> log_times(8);
  for (size_t subset = 0; subset < 8; ++subset) {
    log_times[subset] = std::log(90);
    for (size_t i = 0; i < 3; ++i) log_times[subset] -= (subset >> i & 1) != 0 ? gains[i] : 0;
  }
  const auto values = shapley_values(log_times);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(values[i], gains[i], 1e-12) << i;
}

TEST(Shapley, SharesWhatTwoBringTogether) {
  // a alone: 100 -> 80, b alone: 100 -> 50, both: 20. a before b brings ln(100/80), after it ln(50/20).
  const auto values = shapley_values(std::vector<double>{std::log(100), std::log(80), std::log(50), std::log(20)});
  EXPECT_NEAR(values[0], (std::log(100.0 / 80) + std::log(50.0 / 20)) / 2, 1e-12);
  EXPECT_NEAR(values[1], (std::log(100.0 / 50) + std::log(80.0 / 20)) / 2, 1e-12);
}

TEST(Shapley, OfThreeThatInteractByHand) {
  // Subsets as bits cba. Orders abc acb bac bca cab cba; a comes first in 2, after b alone in 1, after c alone in 1,
  // last in 2.
  const std::vector<double> t{10, 8, 7, 7.5, 9, 6, 3, 1};  // -, a, b, ab, c, ac, bc, abc: already logarithms
  const auto values = shapley_values(t);
  EXPECT_NEAR(values[0], (2 * (10 - 8) + (7 - 7.5) + (9 - 6) + 2 * (3 - 1)) / 6, 1e-12);
  EXPECT_NEAR(values[1], (2 * (10 - 7) + (8 - 7.5) + (9 - 3) + 2 * (6 - 1)) / 6, 1e-12);
  EXPECT_NEAR(values[2], (2 * (10 - 9) + (8 - 6) + (7 - 3) + 2 * (7.5 - 1)) / 6, 1e-12);
}

TEST(Shapley, AddsUpToTheWholeSpeedup) {
  std::mt19937_64 random(3);
  for (size_t k = 1; k <= 6; ++k) {
    std::vector<double> log_times(size_t{1} << k);
    for (double& value : log_times) value = static_cast<double>(random() % 1000) / 100;
    const auto values = shapley_values(log_times);
    EXPECT_NEAR(std::accumulate(values.begin(), values.end(), 0.0), log_times.front() - log_times.back(), 1e-9) << k;
  }
}

Rung rung(const std::string& title, std::vector<std::string> applied) {
  return {.optimization = applied.size() == 1 ? applied[0] : "", .title = title, .applied = std::move(applied)};
}

// Base, {bf16}, {flash}, {bf16, flash}.
Plan factorial_plan() {
  Plan plan;
  plan.mode = Mode::factorial;
  plan.repeats = 3;
  plan.rungs = {rung("base", {}), rung("bf16", {"bf16"}), rung("flash", {"flash"}), rung("both", {"bf16", "flash"})};
  return plan;
}

Plan pairs_plan(Mode mode) {
  Plan plan;
  plan.mode = mode;
  plan.rungs = {rung("base", {}), rung("one", {"bf16"}), rung("two", {"flash"})};
  plan.rungs[1].against = plan.rungs[2].against = 0;
  return plan;
}

const std::vector<std::string> reasons{"no base", "no one", "no two", "no both"};

TEST(Attribution, OfAFactorialIsPairedWithinRepeats) {
  // The second repeat runs on a machine half as fast, the third has another interaction.
  const std::vector<Times> times{{{0, 100}, {1, 200}, {2, 100}},
                                 {{0, 80}, {1, 160}, {2, 80}},
                                 {{0, 50}, {1, 100}, {2, 50}},
                                 {{0, 20}, {1, 40}, {2, 25}}};
  const auto worth = attribution(factorial_plan(), times, reasons);
  ASSERT_EQ(worth.size(), 8U);
  EXPECT_EQ(worth[0].optimization, "bf16");
  EXPECT_EQ(worth[0].method, Method::shapley);
  const double usual = (std::log(100.0 / 80) + std::log(50.0 / 20)) / 2;
  const double third = (std::log(100.0 / 80) + std::log(50.0 / 25)) / 2;
  EXPECT_NEAR(*worth[0].ratio, std::exp((2 * usual + third) / 3), 1e-12);
  EXPECT_EQ(worth[0].repeats, 3);
  // s of (u, u, v) is |u - v| / sqrt 3, its t interval with 2 degrees of freedom 4.302653 s / sqrt 3 wide.
  EXPECT_NEAR(std::log(*worth[0].hi / *worth[0].ratio), 4.302652729911275 * std::abs(usual - third) / 3, 1e-9);
  EXPECT_NEAR(*worth[0].ratio * *worth[1].ratio, std::exp((2 * std::log(5) + std::log(4)) / 3), 1e-9);
}

TEST(Attribution, OfAFactorialUsesCompleteRepeatsOnly) {
  std::vector<Times> times{{{0, 100}, {1, 100}}, {{0, 80}}, {{0, 50}, {1, 1}}, {{0, 20}, {1, 20}}};
  auto worth = attribution(factorial_plan(), times, reasons);
  EXPECT_NEAR(*worth[0].ratio, std::sqrt(1.25 * 2.5), 1e-12);
  EXPECT_FALSE(worth[0].lo);  // one repeat
  times[1].clear();
  worth = attribution(factorial_plan(), times, reasons);
  EXPECT_FALSE(worth[0].ratio);
  EXPECT_EQ(worth[1].reason, "\"bf16\" has none: no one");
}

TEST(Attribution, OfAFactorialTellsWhatTheOtherModesWould) {
  // A repeat that is half as fast changes nothing: pairs are taken within it.
  const std::vector<Times> times{{{0, 100}, {1, 200}}, {{0, 80}, {1, 160}}, {{0, 50}, {1, 100}}, {{0, 20}, {1, 40}}};
  const auto worth = attribution(factorial_plan(), times, reasons);
  const std::vector<std::tuple<std::string, std::string, double>> by_hand{
      {"cumulative", "bf16", 100.0 / 80},    {"cumulative", "flash", 80.0 / 20},
      {"leave_one_out", "bf16", 50.0 / 20},  {"leave_one_out", "flash", 80.0 / 20},
      {"one_at_a_time", "bf16", 100.0 / 80}, {"one_at_a_time", "flash", 100.0 / 50}};
  ASSERT_EQ(worth.size(), 2 + by_hand.size());
  for (size_t i = 0; i < by_hand.size(); ++i) {
    const auto& [method, optimization, ratio] = by_hand[i];
    EXPECT_EQ(name_of(worth[i + 2].method), method);
    EXPECT_EQ(worth[i + 2].optimization, optimization);
    EXPECT_NEAR(*worth[i + 2].ratio, ratio, 1e-12) << i;
    EXPECT_NEAR(*worth[i + 2].lo, ratio, 1e-9) << i;
    EXPECT_EQ(worth[i + 2].repeats, 2) << i;
  }
}

TEST(Attribution, OfThreeFactorsInTheLaddersOrder) {
  // ln t by subset, bits cba, as in OfThreeThatInteractByHand; the ladder puts on a, then b, then c.
  const std::vector<double> log_ms{10, 8, 7, 7.5, 9, 6, 3, 1};
  Plan plan;
  plan.mode = Mode::factorial;
  plan.repeats = 1;
  const std::vector<std::string> names{"bf16", "flash", "vocab"};
  std::vector<Times> times;
  for (size_t subset = 0; subset < 8; ++subset) {
    std::vector<std::string> applied;
    for (size_t i = 0; i < 3; ++i) {
      if ((subset >> i & 1) != 0) applied.push_back(names[i]);
    }
    plan.rungs.push_back(rung("subset", applied));
    times.push_back({{0, std::exp(log_ms[subset])}});
  }
  const auto worth = attribution(plan, times, std::vector<std::string>(8));
  ASSERT_EQ(worth.size(), 12U);
  const std::vector<double> by_hand{10 - 8, 8 - 7.5, 7.5 - 1, 3 - 1, 6 - 1, 7.5 - 1, 10 - 8, 10 - 7, 10 - 9};
  for (size_t i = 0; i < by_hand.size(); ++i) {
    EXPECT_NEAR(std::log(*worth[i + 3].ratio), by_hand[i], 1e-9) << name_of(worth[i + 3].method) << i;
  }
}

TEST(Attribution, OfAFactorialNeedsOnlyTheTwoRungsThatItCompares) {
  const std::vector<Times> times{{{0, 100}}, {}, {{0, 50}}, {{1, 20}}};
  const auto worth = attribution(factorial_plan(), times, reasons);
  EXPECT_EQ(worth[2].reason, "\"bf16\" has none: no one");    // cumulative, bf16
  EXPECT_EQ(worth[4].reason, "no repeat has both runs yet");  // left out, bf16: both without flash
  EXPECT_NEAR(*worth[7].ratio, 2, 1e-12);                     // alone, flash
  EXPECT_FALSE(worth[0].ratio);
}

TEST(Attribution, LeaveOneOutAndOneAtATimeCountTheSameWay) {
  // Above 1 is worth having in both: leaving it out takes longer, having it alone takes less.
  const std::vector<Times> left_out{{{0, 10}, {1, 20}}, {{0, 15}, {1, 30}}, {}};
  auto worth = attribution(pairs_plan(Mode::leave_one_out), left_out, reasons);
  ASSERT_EQ(worth.size(), 2U);
  EXPECT_EQ(worth[0].method, Method::leave_one_out);
  EXPECT_NEAR(*worth[0].ratio, 1.5, 1e-12);
  EXPECT_NEAR(*worth[0].hi, 1.5, 1e-9);
  EXPECT_FALSE(worth[1].ratio);
  EXPECT_EQ(worth[1].reason, "no two");

  const std::vector<Times> alone{{{0, 30}}, {{0, 15}}, {{0, 60}}};
  worth = attribution(pairs_plan(Mode::one_at_a_time), alone, reasons);
  EXPECT_EQ(worth[0].method, Method::one_at_a_time);
  EXPECT_NEAR(*worth[0].ratio, 2, 1e-12);
  EXPECT_NEAR(*worth[1].ratio, 0.5, 1e-12);
  EXPECT_FALSE(worth[1].lo);

  EXPECT_TRUE(attribution(pairs_plan(Mode::cumulative), alone, reasons).empty());
  worth = attribution(pairs_plan(Mode::one_at_a_time), {{{0, 30}}, {{1, 15}}, {}}, reasons);
  EXPECT_EQ(worth[0].reason, "no repeat has both runs yet");
}

// How often a Shapley value's interval holds the true one. Noise of each run, and of what a whole repeat shares.
double coverage(int64_t repeats, int studies) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0.0, 0.03), drift(0.0, 0.3);
  Plan plan = factorial_plan();
  plan.repeats = repeats;
  const std::vector<double> true_ms{100, 80, 50, 20};
  const double truth = std::sqrt(1.25 * 2.5);
  int covered = 0;
  for (int study = 0; study < studies; ++study) {
    std::vector<Times> times(4);
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
      const double shared = drift(random);
      for (size_t i = 0; i < 4; ++i) times[i][repeat] = true_ms[i] * std::exp(shared + noise(random));
    }
    const Worth worth = attribution(plan, times, reasons)[0];
    covered += *worth.lo <= truth && truth <= *worth.hi ? 1 : 0;
  }
  return static_cast<double>(covered) / studies;
}

TEST(Attribution, ItsIntervalCoversAsOftenAsItSays) {
  for (const int64_t repeats : {2, 3, 5, 8}) {
    const double share = coverage(repeats, 2000);
    EXPECT_GT(share, 0.935) << repeats;
    EXPECT_LT(share, 0.965) << repeats;
  }
}

}  // namespace attribution_test
