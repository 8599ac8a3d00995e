// What a study of time to loss finds, on planted losses.
#include "study/training/quality.h"

#include "tests/study/planted_to_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>

namespace quality_test {

using namespace study;
using harness::Quality;

TEST(ReachedAt, IsOnTheLineBetweenTwoValidations) {
  const std::vector<LossAt> curve = planted::seed_training(0, 1, 2, {6, 4, 3}).curve;  // steps 10, 20, 30
  EXPECT_DOUBLE_EQ(reached_at(curve, 5)->step, 15);
  EXPECT_DOUBLE_EQ(reached_at(curve, 5)->seconds, 30);
  EXPECT_DOUBLE_EQ(reached_at(curve, 4)->step, 20);
  EXPECT_DOUBLE_EQ(reached_at(curve, 3.25)->step, 27.5);
  EXPECT_DOUBLE_EQ(reached_at(curve, 7)->step, 10);  // nothing is known before the first one
  EXPECT_FALSE(reached_at(curve, 2.9));
  EXPECT_FALSE(reached_at({}, 5));
}

TEST(ReachedAt, IsTheFirstTime) {
  const std::vector<LossAt> curve = planted::seed_training(0, 1, 1, {6, 4, 7, 3}).curve;
  EXPECT_DOUBLE_EQ(reached_at(curve, 5)->step, 15);
}

TEST(TimeToLoss, TheSameQualityMakesASpeedupCount) {
  const TimeToLoss study = with_verdicts(planted::to_loss());
  EXPECT_EQ(study.reference, 0U);
  EXPECT_DOUBLE_EQ(*study.rungs[0].seconds, 30);  // the geometric mean of 15, 30 and 60
  EXPECT_EQ(study.rungs[0].quality, std::nullopt);
  const RungToLoss& bf16 = study.rungs[2];
  EXPECT_DOUBLE_EQ(*bf16.seconds, 15);
  EXPECT_NEAR(bf16.speedup->mean, 2, 1e-12);
  EXPECT_NEAR(*bf16.speedup->lo, 2, 1e-9);  // every pair says 2: what the seeds differ in cancels
  EXPECT_NEAR(bf16.difference->mean, 0.02, 1e-12);
  // As verdict_test.cpp has it: 4.302653 x 0.01 / sqrt(3).
  EXPECT_NEAR(*bf16.difference->hi, 0.0448414, 1e-6);
  EXPECT_EQ(bf16.quality, Quality::same);
  EXPECT_TRUE(bf16.counts);
  EXPECT_EQ(bf16.ended, 3);
  EXPECT_EQ(bf16.reached, 3);
  ASSERT_EQ(bf16.medians.size(), 3U);
  EXPECT_DOUBLE_EQ(bf16.medians[1].seconds, 20);  // of 10, 20 and 40
  EXPECT_DOUBLE_EQ(bf16.medians[2].loss, 3.02);
  EXPECT_FALSE(study.rungs[1].loss || study.rungs[1].quality);
}

TEST(TimeToLoss, ARungThatDoesNotReachTheLossHasNoSpeedup) {
  const TimeToLoss study = with_verdicts(planted::to_loss());
  const RungToLoss& flash = study.rungs[3];
  EXPECT_EQ(flash.reached, 0);
  EXPECT_EQ(flash.ended, 3);
  EXPECT_FALSE(flash.seconds || flash.speedup);
  EXPECT_EQ(flash.quality, Quality::worse);
  EXPECT_FALSE(flash.counts);
}

TEST(TimeToLoss, SeedsThatWereLuckyMakeNoSpeedup) {
  TimeToLoss study = planted::to_loss();
  study.trainings[1].curve = planted::seed_training(2, 1, 0.5, {6, 5.5, 5.1}).curve;
  study = with_verdicts(study);
  EXPECT_EQ(study.rungs[2].reached, 2);
  EXPECT_FALSE(study.rungs[2].seconds || study.rungs[2].speedup || study.rungs[2].counts);
}

TEST(TimeToLoss, UnclearWhereTheMarginLiesInTheInterval) {
  TimeToLoss study = planted::to_loss();
  study.margin = 0.03;
  study = with_verdicts(study);
  EXPECT_EQ(study.rungs[2].quality, Quality::unclear);
  EXPECT_TRUE(study.rungs[2].speedup);
  EXPECT_FALSE(study.rungs[2].counts);
}

TEST(TimeToLoss, OneSeedHasNoVerdict) {
  TimeToLoss study = planted::to_loss();
  study.seeds = 1;
  study.trainings.resize(3);
  study = with_verdicts(study);
  EXPECT_EQ(study.rungs[2].quality, Quality::too_few);
  EXPECT_NEAR(study.rungs[2].difference->mean, 0.01, 1e-12);
  EXPECT_FALSE(study.rungs[2].difference->hi || study.rungs[2].speedup->lo || study.rungs[2].counts);
}

TEST(TimeToLoss, OneDivergedTrainingMakesARungWorse) {
  TimeToLoss study = planted::to_loss();
  study.trainings[4].not_finite = "the loss of step 12";
  study.trainings[4].curve.resize(1);
  EXPECT_EQ(with_verdicts(study).rungs[2].quality, Quality::worse);
  EXPECT_EQ(with_verdicts(study).rungs[2].ended, 2);
  // With a seed with which the reference diverges, too, that says nothing of the rung.
  study.trainings[3].not_finite = "the loss of step 12";
  EXPECT_NEAR(with_verdicts(study).rungs[2].difference->mean, 0.02, 1e-12);
  EXPECT_NE(with_verdicts(study).rungs[2].quality, Quality::worse);
}

TEST(TimeToLoss, PairsAreOfOneSeed) {
  TimeToLoss study = planted::to_loss();
  study.trainings.erase(study.trainings.begin());  // the reference's first
  study = with_verdicts(study);
  EXPECT_NEAR(study.rungs[2].difference->mean, 0.025, 1e-12);
}

TEST(TimeToLoss, WithoutAReferenceNothingIsCompared) {
  TimeToLoss study = planted::to_loss();
  std::erase_if(study.trainings, [](const SeedTraining& one) { return one.rung == 0; });
  study = with_verdicts(study);
  EXPECT_FALSE(study.rungs[2].quality || study.rungs[2].difference || study.rungs[2].speedup);
}

}  // namespace quality_test

namespace spikes_test {

// What is a spike of the loss, and what is not.

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
