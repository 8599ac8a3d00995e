// What is called slower, and how often that is wrong where somebody looks every night. Seeds are fixed.
#include "study/archive/series.h"

#include "tests/study/simulated_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace series_test {

using namespace study;
using harness::Changes;

constexpr size_t last = 29;  // of thirty values

// Levels in percent above the first one, each from where it begins; every step with this p.
Changes changes(const std::vector<std::pair<size_t, double>>& levels, double p = 0.001) {
  Changes result{.steps = {}, .drift = {}, .level = std::vector<double>(last + 1)};
  for (const auto& [at, percent] : levels) {
    const double level = std::log1p(percent / 100);
    result.steps.push_back({.at = at, .change = level - result.level[at - 1], .p = p});
    std::fill(result.level.begin() + static_cast<std::ptrdiff_t>(at), result.level.end(), level);
  }
  return result;
}

std::string word(const Changes& one, double min_effect = 0.02) {
  return name_of(verdicts_of(std::vector{one}, min_effect)[0].trend);
}

TEST(Verdicts, ComeFromTheLastLevelAgainstTheBestAndTheFirst) {
  EXPECT_EQ(word(changes({})), "unchanged");
  EXPECT_EQ(word(changes({{10, 10}})), "slower");
  EXPECT_EQ(word(changes({{10, 10}, {20, 0}})), "unchanged");    // mended
  EXPECT_EQ(word(changes({{10, 10}, {20, 0.3}})), "unchanged");  // but for noise
  EXPECT_EQ(word(changes({{10, 10}, {20, -0.3}})), "unchanged");
  EXPECT_EQ(word(changes({{10, 10}, {20, 4}})), "slower");  // partly
  EXPECT_EQ(word(changes({{10, -10}})), "faster");
  EXPECT_EQ(word(changes({{10, -10}, {20, -9.5}})), "faster");
  EXPECT_EQ(word(changes({{10, -10}, {20, -5}})), "slower");  // half of it was lost again
  EXPECT_EQ(word(Changes{.steps = {}, .drift = {}, .level = {0, 0, 0}}), "too_few");
}

TEST(Verdicts, AskForTheLeastEffectThatMatters) {
  EXPECT_EQ(word(changes({{10, 1.9}})), "unchanged");
  EXPECT_EQ(word(changes({{10, 2.1}})), "slower");
  EXPECT_EQ(word(changes({{10, 2.1}}), 0.05), "unchanged");
  EXPECT_EQ(word(changes({{10, 0.2}}), 0), "slower");
  EXPECT_EQ(word(changes({{10, -1.9}})), "unchanged");
  EXPECT_EQ(word(changes({{10, -2.1}})), "faster");
}

// A step at the level of a lone series, 0.02, is sure of one series, not of one among four.
TEST(Verdicts, AreSureAmongAllThatAreJudgedTogether) {
  const Changes weak = changes({{10, 5}}, 0.02), sure = changes({{10, 5}}, 0.005), none = changes({});
  EXPECT_EQ(word(weak), "slower");
  const auto words = [](const std::vector<Changes>& family) {
    std::vector<std::string> result;
    for (const SeriesVerdict& verdict : verdicts_of(family, 0.02)) result.push_back(name_of(verdict.trend));
    return result;
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(words({weak, none, none, none}), (Words{"unchanged", "unchanged", "unchanged", "unchanged"}));
  EXPECT_EQ(words({sure, none, none, none}), (Words{"slower", "unchanged", "unchanged", "unchanged"}));
  EXPECT_EQ(words({weak, weak, weak, weak}), (Words{"slower", "slower", "slower", "slower"}));
  EXPECT_EQ(words({weak, sure, none}), (Words{"unchanged", "slower", "unchanged"}));
  const SeriesVerdict unsure = verdicts_of(std::vector{weak, none}, 0.02)[0];
  EXPECT_TRUE(unsure.unsure);
  EXPECT_EQ(unsure.judged_together, 2U);
  // What is too short is no competitor, and an old sure speedup is no witness against a later slowdown.
  EXPECT_EQ(words({weak, {.steps = {}, .drift = {}, .level = {0, 0}}}), (Words{"slower", "too_few"}));
  Changes mixed = changes({{10, -20}, {20, -15}}, 0.02);
  mixed.steps[0].p = 0.001;
  EXPECT_EQ(words({mixed, none}), (Words{"unchanged", "unchanged"}));
}

TEST(Verdicts, RaiseFewFalseAlarmsOverManyNights) {
  EXPECT_LE(simulated::false_alarms(120, 0.01), 0.05);
  EXPECT_EQ(simulated::false_alarms(30, 0.003), 0);
}

}  // namespace series_test
