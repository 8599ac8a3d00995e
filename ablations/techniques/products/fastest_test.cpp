// The choice between ways of making a product, on a device that gets slower while they are timed.
#include "ablations/techniques/products/fastest.h"

#include <gtest/gtest.h>

#include <random>

namespace fastest_test {

using namespace model;

using Rounds = std::vector<std::vector<double>>;

// Times as a device would show them whose every turn takes `drift` longer than at the beginning of all, in the end.
Rounds timed(const std::vector<double>& ways, size_t rounds, double drift, double noise = 0, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, noise);
  Rounds times(rounds, std::vector<double>(ways.size()));
  const auto turns = static_cast<double>(rounds * ways.size() - 1);
  for (size_t round = 0, made = 0; round < rounds; ++round) {
    for (size_t i = 0; i < ways.size(); ++i, ++made) {
      const size_t way = turn(round, i, ways.size());
      times[round][way] = ways[way] * (1 + drift * static_cast<double>(made) / turns) * (1 + normal(random));
    }
  }
  return times;
}

TEST(FastestWay, IsTheUsualOneUnlessAnotherIsThreePercentFaster) {
  EXPECT_EQ(fastest_way({{100}}, 0), 0U);
  EXPECT_EQ(fastest_way({{100, 98, 97.5}}, 0), 0U);
  EXPECT_EQ(fastest_way({{100, 98, 97}, {100, 98, 97}}, 0), 2U);
  EXPECT_EQ(fastest_way({{96.9, 98, 100}}, 2), 0U);
  EXPECT_EQ(fastest_way({{98, 100}}, 1), 1U);
}

TEST(FastestWay, IsTheSameOnADeviceThatWarmsUpOrCoolsDown) {
  const std::vector<std::vector<double>> products{
      {100, 101, 99, 100}, {100, 95, 101, 99}, {100, 100, 100, 100, 100, 100, 100, 94}, {94, 100, 100}, {100, 100.5}};
  for (const std::vector<double>& ways : products) {
    for (const size_t usual : {size_t{0}, ways.size() - 1}) {
      const size_t right = fastest_way({ways}, usual);
      for (const double drift : {-0.12, -0.03, 0.03, 0.12}) {
        EXPECT_EQ(fastest_way(timed(ways, 4, drift), usual), right) << "usual " << usual << ", drift " << drift;
      }
    }
  }
}

// What was done before, the least of all rounds in one order, takes the way that was timed while the device was cool.
TEST(FastestWay, IsNotTheOneThatWasTimedFirst) {
  const std::vector<double> ways{100, 96, 100, 100};
  for (unsigned seed = 1; seed <= 200; ++seed) {
    const Rounds times = timed(ways, 4, 0.12, 0.004, seed);
    EXPECT_EQ(fastest_way(times, 3), 1U) << seed;
    EXPECT_EQ(fastest_way(timed({100, 100, 100, 100}, 4, 0.12, 0.004, seed), 3), 3U) << seed;
  }
}

}  // namespace fastest_test
