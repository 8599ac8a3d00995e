// What counts as a spike of the loss.
#include "study/training/spikes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace spikes_test {

using namespace study;

TEST(Spikes, AreFarAboveTheLossesBefore) {
  SpikeWatch watch;
  for (int i = 0; i < 40; ++i) EXPECT_FALSE(watch.take(i % 2 == 0 ? 2.9 : 3.1)) << i;
  // Their standard deviation is 0.1 sqrt(40 / 39).
  const auto z = watch.take(4.0);
  ASSERT_TRUE(z);
  EXPECT_NEAR(*z, 1.0 / (0.1 * std::sqrt(40.0 / 39.0)), 1e-9);
  int again = 0;
  for (int i = 0; i < 30; ++i) again += watch.take(4.0) ? 1 : 0;
  EXPECT_LE(again, 2) << "it stays high";
  EXPECT_FALSE(watch.take(-5.0)) << "a fall";
  EXPECT_FALSE(watch.take(NAN));
  EXPECT_FALSE(watch.take(INFINITY));
}

TEST(Spikes, NeedLossesBefore) {
  for (const size_t before : {spike_least - 1, spike_least}) {
    SpikeWatch watch;
    for (size_t i = 0; i < before; ++i) (void)watch.take(i % 2 == 0 ? 2.9 : 3.1);
    EXPECT_EQ(watch.take(100).has_value(), before == spike_least);
  }
}

TEST(Spikes, AreNoRounding) {
  SpikeWatch watch;
  for (int i = 0; i < 40; ++i) (void)watch.take(1.0);
  EXPECT_FALSE(watch.take(1.0 + 4.9 * least_deviation));
  SpikeWatch again;
  for (int i = 0; i < 40; ++i) (void)again.take(1.0);
  EXPECT_NEAR(again.take(1.0 + 5.1 * least_deviation).value_or(0), 5.1, 1e-6);
}

TEST(Spikes, ForgetWhatWasLongAgo) {
  SpikeWatch watch;
  for (int i = 0; i < 100; ++i) (void)watch.take(10.0);
  for (size_t i = 0; i < spike_window; ++i) EXPECT_FALSE(watch.take(2.0 + 0.1 * (i % 2)));
  EXPECT_TRUE(watch.take(3.0));
}

TEST(Spikes, AreNotSeenInNoise) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 0.1);
  SpikeWatch watch;
  int seen = 0;
  for (int i = 0; i < 5000; ++i) seen += watch.take(3.0 + 7.0 / (1 + i / 50.0) + noise(random)).has_value() ? 1 : 0;
  EXPECT_EQ(seen, 0);
}

}  // namespace spikes_test
