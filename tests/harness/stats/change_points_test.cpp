// How often changes are found that are there, and that are not: by simulation, with series like those of a machine that
// measures every night. Seeds are fixed, so every share here is the same in every run.
#include "harness/stats/change_points.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>

namespace change_points_test {

using namespace harness;

using Random = std::mt19937_64;
using Noise = std::function<double(Random&)>;
using Mean = std::function<double(size_t)>;

Noise normal(double deviation) {
  return [deviation](Random& random) { return std::normal_distribution<double>(0, deviation)(random); };
}
Noise heavy_tailed(double scale) {
  return [scale](Random& random) { return scale * std::student_t_distribution<double>(3)(random); };
}
double nothing(size_t) { return 0; }
Mean step_at(size_t place, double size) {
  return [=](size_t i) { return i < place ? 0 : size; };
}

std::vector<double> series(size_t n, Random& random, const Noise& noise, const Mean& mean) {
  std::vector<double> values;
  for (size_t i = 0; i < n; ++i) values.push_back(mean(i) + noise(random));
  return values;
}

bool any(const Changes& changes) { return !changes.steps.empty() || changes.drift; }

bool has_step_near(const Changes& changes, size_t place) {
  for (const Step& step : changes.steps) {
    if (step.at + 1 >= place && step.at <= place + 1) return true;
  }
  return false;
}

// The share of `count` series for which `true_of` holds.
double share(int count, const std::function<std::vector<double>(Random&, size_t)>& make,
             const std::function<bool(const Changes&)>& true_of) {
  Random random(7);
  int holds = 0;
  for (int i = 0; i < count; ++i) holds += true_of(find_changes(make(random, static_cast<size_t>(i)))) ? 1 : 0;
  return static_cast<double>(holds) / count;
}

TEST(FindChanges, RaisesFewFalseAlarms) {
  const Noise skewed = [](Random& random) { return 0.02 * std::exp(normal(1)(random)); };
  const Noise rounded = [](Random& random) { return 0.01 * std::round(normal(1)(random)); };  // many ties
  for (const Noise& noise : {normal(0.01), heavy_tailed(0.01), skewed, rounded}) {
    const double alarms = share(
        400, [&](Random& random, size_t i) { return series(10 + i % 51, random, noise, nothing); }, any);
    EXPECT_LE(alarms, 0.05);
  }
}

TEST(FindChanges, FindsAStepOfFivePercentWhereItIs) {
  const auto found = [](size_t n, size_t place, const Noise& noise) {
    return share(
        100, [&](Random& random, size_t) { return series(n, random, noise, step_at(place, 0.05)); },
        [&](const Changes& changes) { return has_step_near(changes, place); });
  };
  EXPECT_GE(found(30, 15, normal(0.01)), 0.95);
  EXPECT_GE(found(30, 27, normal(0.01)), 0.95);  // three nights ago
  EXPECT_GE(found(30, 15, heavy_tailed(0.01)), 0.90);
  EXPECT_GE(found(10, 5, normal(0.01)), 0.85);
}

TEST(FindChanges, FindsOneStepAsOne) {
  const double alone = share(
      100, [](Random& random, size_t) { return series(30, random, normal(0.01), step_at(15, 0.05)); },
      [](const Changes& changes) { return changes.steps.size() == 1 && !changes.drift; });
  EXPECT_GE(alone, 0.90);
}

TEST(FindChanges, FindsASlowdownThatWasMendedAndAStaircase) {
  const auto both = [](const Mean& mean) {
    return share(
        100, [&](Random& random, size_t) { return series(30, random, normal(0.01), mean); },
        [](const Changes& changes) { return has_step_near(changes, 10) && has_step_near(changes, 20); });
  };
  EXPECT_GE(both([](size_t i) { return i >= 10 && i < 20 ? 0.05 : 0; }), 0.95);
  EXPECT_GE(both([](size_t i) { return 0.05 * static_cast<double>(i / 10); }), 0.95);
}

TEST(FindChanges, FindsSmallStepsThatAddUp) {
  // Ten steps of 0.7 %, one every third value or one after the other.
  const Mean every_third = [](size_t i) { return 0.007 * static_cast<double>(std::min<size_t>(10, (i + 1) / 3)); };
  const Mean each = [](size_t i) { return 0.007 * static_cast<double>(i); };
  const auto added_up = [](const Changes& changes) {
    return any(changes) && std::abs(changes.level.back() - changes.level.front() - 0.07) < 0.01;
  };
  EXPECT_GE(share(
                100, [&](Random& r, size_t) { return series(31, r, normal(0.005), every_third); }, added_up),
            0.95);
  EXPECT_GE(share(
                100, [&](Random& r, size_t) { return series(11, r, normal(0.005), each); }, added_up),
            0.95);
}

TEST(FindChanges, FindsADriftBehindAStep) {
  // Every value 0.3 % slower than the one before it, which ten percent gained in between hide.
  const Mean mean = [](size_t i) { return 0.003 * static_cast<double>(i) - (i < 15 ? 0 : 0.1); };
  Random random(7);
  int found = 0;
  for (int i = 0; i < 100; ++i) {
    const Changes changes = find_changes(series(30, random, normal(0.005), mean));
    if (!has_step_near(changes, 15) || !changes.drift) continue;
    ++found;
    // Some of it may be told as smaller steps; together they are right.
    EXPECT_GT(changes.drift->per_value, 0.001);
    EXPECT_NEAR(changes.level.back() - changes.level.front(), 0.087 - 0.1, 0.015);
  }
  EXPECT_GE(found, 90);
}

TEST(FindChanges, OutliersAreNoChange) {
  const auto one = [](Random& random, size_t i) {
    auto values = series(30, random, normal(0.01), nothing);
    values[i % 30] += 0.3;
    return values;
  };
  const auto two_apart = [](Random& random, size_t) {
    auto values = series(30, random, normal(0.01), nothing);
    values[10] = values[20] = 0.3;
    return values;
  };
  EXPECT_LE(share(400, one, any), 0.05);
  EXPECT_LE(share(100, two_apart, any), 0.05);
  // Nor does one hide a step.
  const auto beside_a_step = [](Random& random, size_t i) {
    auto values = series(30, random, normal(0.01), step_at(15, 0.05));
    values[i % 30] += 0.5;
    return values;
  };
  EXPECT_GE(share(100, beside_a_step, any), 0.95);
  EXPECT_GE(share(100, beside_a_step, [](const Changes& changes) { return !changes.steps.empty(); }), 0.85);
}

TEST(FindChanges, FewValuesShowNothing) {
  std::vector<double> values;
  for (size_t n = 1; n < least_for_steps; ++n) {
    values.push_back(n % 2 == 0 ? 0.001 : 0);  // no drift
    EXPECT_FALSE(any(find_changes(values))) << n;
    EXPECT_EQ(find_changes(values).level.size(), n);
  }
  EXPECT_FALSE(any(find_changes(std::vector<double>{1, 2, 3, 4, 5})));
  const Changes six = find_changes(std::vector<double>{1, 2, 3, 4, 5, 6});
  ASSERT_TRUE(six.drift);
  EXPECT_DOUBLE_EQ(six.drift->total, 5);
  EXPECT_LT(six.drift->p, false_drifts);
  // Equal values make the same order rarer: without them in the variance, p would be 0.013.
  EXPECT_TRUE(find_changes(std::vector<double>{0, 0, 0, 0, 1, 1, 2, 3}).drift);
}

TEST(FindChanges, EqualValuesDoNotChangeAndACleanStepIsExact) {
  EXPECT_FALSE(any(find_changes(std::vector<double>(40, 1.5))));
  std::vector<double> values(40, 1.5);
  std::fill(values.begin() + 22, values.end(), 1.6);
  const Changes changes = find_changes(values);
  ASSERT_EQ(changes.steps.size(), 1U);
  EXPECT_EQ(changes.steps[0].at, 22U);
  EXPECT_DOUBLE_EQ(changes.steps[0].change, 1.6 - 1.5);
  EXPECT_DOUBLE_EQ(changes.steps[0].p, 0.001);  // none of 999 permutations is as far apart
  EXPECT_FALSE(changes.drift);
  EXPECT_EQ(changes.level, values);
}

TEST(FindChanges, AmongManySeriesAStepCanBeSurerThanAThousandth) {
  std::vector<double> values(40, 1.5);
  std::fill(values.begin() + 22, values.end(), 1.6);
  EXPECT_DOUBLE_EQ(find_changes(values, 19).steps.at(0).p, 0.001);
  EXPECT_LE(find_changes(values, 100).steps.at(0).p, false_steps / 100);
}

TEST(FindChanges, FindsEveryStepOfALongStaircase) {
  std::vector<double> values;
  for (size_t i = 0; i < 60; ++i) values.push_back(0.05 * static_cast<double>(i / 10));
  const Changes changes = find_changes(values);
  ASSERT_EQ(changes.steps.size(), 5U);
  for (size_t k = 0; k < 5; ++k) EXPECT_EQ(changes.steps[k].at, 10 * (k + 1));
}

TEST(FindChanges, GivesTheSameAnswerTwice) {
  Random random(7);
  const auto values = series(40, random, normal(0.01), step_at(30, 0.013));
  const Changes first = find_changes(values), second = find_changes(values);
  ASSERT_EQ(first.steps.size(), 1U);
  ASSERT_EQ(second.steps.size(), 1U);
  EXPECT_GT(first.steps[0].p, 0.002);  // some permutations are as far apart, which ones depends on the seed
  EXPECT_EQ(first.steps[0].p, second.steps[0].p);
  EXPECT_EQ(first.level, second.level);
}

}  // namespace change_points_test
