// What counted work lets one expect of a ladder's rungs, against numbers made by hand.
#include "plots/predictions.h"

#include "ablations/techniques/step_table.h"
#include "study/trace/roofline.h"
#include "tests/study/made_up_study.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace predictions_test {

using namespace plots;

constexpr model::Recipe in_float32{}, in_bf16{.autocast = model::Autocast::bf16},
    with_norm{.autocast = model::Autocast::bf16, .norm = model::Norm::fused};

std::vector<Cost> costs(const Study& study, const model::Recipe& recipe) {
  return step_costs(model::preset("gpt2-124m"), recipe, study.workload.B, study.workload.T, 1);
}

const model::Recipe recipes[] = {in_float32, in_bf16, with_norm};

// float32, bf16, fused norm.
Study counted() {
  Study study = made_up::study();
  study.environment.cpu.model = "A processor";
  for (StudyRung& rung : study.rungs) {
    rung.least_work = Work{8e11, 3e10 - 1e9 * static_cast<double>(rung.index)};
  }
  return study;
}

Plan planned() {
  Plan plan;
  for (const model::Recipe& recipe : recipes) {
    Rung& rung = plan.rungs.emplace_back();
    rung.recipe = model::to_json(recipe);
    rung.work = ExpectedWork{.rate = ablations::rate_of(recipe), .operations = {}};
    for (const Cost& cost : costs(made_up::study(), recipe)) rung.work->operations.push_back({cost.flops, cost.bytes});
  }
  return plan;
}

TraceDocument trace(const Study& study, const model::Recipe& recipe, double flops_per_s, double bytes_per_s) {
  TraceDocument made;
  made.device = {DeviceKind::cpu, "A processor"};
  made.recipe = model::to_json(recipe);
  made.environment = study.environment;
  made.roofline =
      Roofline{.limits = {.flops_per_s = flops_per_s, .bytes_per_s = bytes_per_s}, .phases = {}, .parts = {}};
  return made;
}

// The sum over the operations of the longer of their two times.
double seconds(const Study& study, const model::Recipe& recipe, double flops_per_s, double bytes_per_s) {
  double sum = 0;
  for (const Cost& cost : costs(study, recipe)) {
    sum += std::max(cost.flops / flops_per_s, cost.bytes / bytes_per_s);
  }
  return sum;
}

TEST(Predictions, WithoutLimitsAreOnlyWhatIsSaved) {
  const std::vector<Prediction> predictions = predictions_of(counted(), planned(), {});
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
  const std::vector<Prediction> predictions = predictions_of(study, planned(), traces);
  const double first = seconds(study, in_float32, 2e11, 4e10), second = seconds(study, in_bf16, 5e11, 4e10),
               third = seconds(study, with_norm, 5e11, 4e10);
  EXPECT_NEAR(predictions[1].ratio.value(), first / second, 1e-9);
  EXPECT_NEAR(predictions[2].ratio.value(), second / third, 1e-9);
  EXPECT_GT(predictions[2].ratio.value(), 1);  // fewer bytes
  // Of float32 products nothing is known.
  const auto partly = predictions_of(study, planned(), {traces[0]});
  EXPECT_FALSE(partly[1].ratio.has_value());
  EXPECT_TRUE(partly[2].ratio.has_value());
}

TEST(Predictions, WhatTheCountsOrTheTracesDoNotTellHasNoRatio) {
  const Study study = counted();
  const TraceDocument trusted = trace(study, in_bf16, 5e11, 4e10);
  TraceDocument other = trusted, none = trusted, refuted = trusted;
  other.environment.cpu.model = "Another processor";
  none.roofline.reset();
  refuted.roofline->limits.refuted = "forward mlp ran at 2x the measured limit of compute";
  Plan same = planned(), older = planned();
  same.rungs[2].work = same.rungs[1].work;  // of flash attention, for instance
  older.rungs[2].work.reset();
  const auto has_ratio = [&](const Plan& plan, const std::vector<TraceDocument>& traces) {
    return predictions_of(study, plan, traces)[2].ratio.has_value();
  };
  EXPECT_TRUE(has_ratio(planned(), {trusted}));
  EXPECT_FALSE(has_ratio(planned(), {other, none, trace(study, in_bf16, 0, 4e10)}));
  EXPECT_FALSE(has_ratio(planned(), {refuted}));
  EXPECT_FALSE(has_ratio(same, {trusted}) || has_ratio(older, {trusted}));
}

TEST(Predictions, AreOfALadderWhoseRecordsCountOnly) {
  Study study = counted();
  study.rungs[1].least_work.reset();  // it has no run that counts
  std::vector<Prediction> predictions = predictions_of(study, planned(), {});
  ASSERT_EQ(predictions.size(), 2U);
  EXPECT_FALSE(predictions[1].saved.has_value()) << "the rung above is not known";
  study.rungs[1].status = RungStatus::not_applicable;  // then it is not the rung above
  predictions = predictions_of(study, planned(), {});
  EXPECT_DOUBLE_EQ(predictions.at(1).saved.value().bytes, 2e9);
  study.mode = Mode::factorial;
  EXPECT_TRUE(predictions_of(study, planned(), {}).empty());
  EXPECT_TRUE(predictions_of(made_up::study(), planned(), {}).empty());  // an older one
}

}  // namespace predictions_test
