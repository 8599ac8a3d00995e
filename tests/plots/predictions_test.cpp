// What counted work lets one expect of a ladder's rungs, against numbers made by hand.
#include "plots/predictions.h"

#include "tests/study/made_up_study.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace predictions_test {

using namespace plots;

const files::Json in_float32{{"autocast", "off"}}, in_bf16{{"autocast", "bf16"}}, with_norm{{"norm", "fused"}};

// float32, bf16, fused norm.
Study counted() {
  Study study = made_up::study();
  study.environment.cpu.model = "A processor";
  const files::Json recipes[] = {in_float32, in_bf16, with_norm};
  for (StudyRung& rung : study.rungs) {
    rung.recipe = recipes[rung.index];
    rung.least_work = LeastWork{8e11, 3e10 - 1e9 * static_cast<double>(rung.index)};
  }
  return study;
}

// Of float32: a product of 8 GFLOP and 1 GB, an update of 4 GB. In bf16 the product has half of the bytes; the fused
// norm leaves out one of 2 GB.
std::vector<RooflineRow> parts_of(const files::Json& recipe) {
  std::vector<RooflineRow> parts{{.phase = "forward", .part = "c_fc", .flops = 8e9, .bytes = 1e9},
                                 {.phase = "forward", .part = "ln_1", .flops = 0, .bytes = 2e9},
                                 {.phase = "update", .part = "adamw", .flops = 0, .bytes = 4e9}};
  if (recipe != in_float32) parts[0].bytes /= 2;
  if (recipe == with_norm) parts.erase(parts.begin() + 1);
  return parts;
}

TraceDocument trace(const Study& study, const files::Json& recipe, double flops_per_s, double bytes_per_s) {
  TraceDocument made;
  made.device = {model::Device::cpu, "A processor"};
  made.recipe = recipe;
  made.environment = study.environment;
  made.roofline = Roofline{.limits = {.flops_per_s = flops_per_s,
                                      .bytes_per_s = bytes_per_s,
                                      .source = recipe == in_float32 ? "measured: fp32 8^3, copy of 1 GiB"
                                                                     : "measured: bf16 8^3, update of 1 GiB"},
                           .phases = {},
                           .parts = parts_of(recipe)};
  return made;
}

TEST(Predictions, WithoutLimitsAreOnlyWhatIsSaved) {
  const std::vector<Prediction> predictions = predictions_of(counted(), {});
  ASSERT_EQ(predictions.size(), 3U);
  EXPECT_FALSE(predictions[0].saved.has_value());
  EXPECT_EQ(predictions[1].rung, 1U);
  EXPECT_DOUBLE_EQ(predictions[1].work.bytes, 2.9e10);
  EXPECT_DOUBLE_EQ(predictions[2].saved.value().bytes, 1e9);
  EXPECT_DOUBLE_EQ(predictions[2].saved.value().flops, 0);
  for (const Prediction& prediction : predictions) EXPECT_FALSE(prediction.ratio.has_value());
}

TEST(Predictions, RatiosAreOfTheLeastTimesAtTheRatesOfTraces) {
  const Study study = counted();
  // Of two traces of a kind the faster counts, and of the memory's rates the fastest.
  const std::vector<TraceDocument> traces{trace(study, in_bf16, 4e11, 3e10), trace(study, with_norm, 5e11, 2e10),
                                          trace(study, in_float32, 2e11, 4e10)};
  const std::vector<Prediction> predictions = predictions_of(study, traces);
  // At 200 GFLOP/s and 40 GB/s: 40 + 50 + 100 ms. At 500 GFLOP/s: 16 + 50 + 100 ms, and without the norm 16 + 100 ms.
  EXPECT_NEAR(predictions[1].ratio.value(), 190.0 / 166.0, 1e-9);
  EXPECT_NEAR(predictions[2].ratio.value(), 166.0 / 116.0, 1e-9);
  // Of float32's rung there is no trace.
  const auto partly = predictions_of(study, {traces[0], traces[1]});
  EXPECT_FALSE(partly[1].ratio.has_value());
  EXPECT_TRUE(partly[2].ratio.has_value());
}

TEST(Predictions, TracesOfAnotherMachineAndWithoutLimitsDoNotCount) {
  const Study study = counted();
  TraceDocument other = trace(study, in_bf16, 5e11, 4e10), none = other, nothing = trace(study, in_bf16, 0, 4e10);
  other.environment.cpu.model = "Another processor";
  none.roofline.reset();
  const TraceDocument norm = trace(study, with_norm, 5e11, 4e10);
  EXPECT_FALSE(predictions_of(study, {norm, other, none, nothing})[2].ratio.has_value());
}

TEST(Predictions, ARefutedRatePredictsNothing) {
  const Study study = counted();
  TraceDocument trusted = trace(study, in_bf16, 5e11, 4e10), refuted = trusted;
  refuted.roofline->limits.refuted = "forward mlp ran at 2x the measured limit of compute";
  const TraceDocument norm = trace(study, with_norm, 5e11, 4e10);
  EXPECT_TRUE(predictions_of(study, {norm, trusted})[2].ratio.has_value());
  EXPECT_FALSE(predictions_of(study, {norm, refuted})[2].ratio.has_value());
}

TEST(Predictions, WhatTheCountsDoNotKnowHasNoRatio) {
  const Study study = counted();
  TraceDocument above = trace(study, in_bf16, 5e11, 4e10), same = above;
  same.recipe = with_norm;
  EXPECT_FALSE(predictions_of(study, {above, same})[2].ratio.has_value());
}

TEST(Predictions, AreOfALadderWhoseRecordsCountOnly) {
  Study study = counted();
  study.rungs[1].least_work.reset();  // it has no run that counts
  std::vector<Prediction> predictions = predictions_of(study, {});
  ASSERT_EQ(predictions.size(), 2U);
  EXPECT_FALSE(predictions[1].saved.has_value()) << "the rung above is not known";
  study.rungs[1].status = RungStatus::not_applicable;  // then it is not the rung above
  predictions = predictions_of(study, {});
  EXPECT_DOUBLE_EQ(predictions.at(1).saved.value().bytes, 2e9);
  study.mode = Mode::factorial;
  EXPECT_TRUE(predictions_of(study, {}).empty());
  EXPECT_TRUE(predictions_of(made_up::study(), {}).empty());  // an older one
}

}  // namespace predictions_test
