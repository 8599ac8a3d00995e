// A training's report: its points and its sentences.
#include "plots/training_summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace training_summary_test {

using namespace plots;

Training training(int64_t steps) {
  Training training{.created = "2026-11-26T10:00:00Z", .recipe_from = "--recipe", .parameters = 1000};
  TrainingSettings& settings = training.settings;
  settings.model = "tiny";
  settings.T = 32;
  settings.steps = steps;
  settings.learning_rate = {.peak = 6e-4, .floor = 6e-5, .warmup_steps = 2, .decay_steps = steps};
  settings.clip = 1.0;
  settings.threads = 2;
  training.files.data = "text.txt";
  training.environment.cpu.model = "AMD EPYC";
  return training;
}

// Losses that fall by a tenth of a nat each step, from 11 on.
std::vector<TrainingStep> log_of(int64_t count) {
  std::vector<TrainingStep> steps;
  for (int64_t i = 1; i <= count; ++i) {
    steps.push_back({.step = i,
                     .tokens = 32 * i,
                     .loss = 11 - 0.1 * static_cast<double>(i - 1),
                     .learning_rate = 6e-4 / static_cast<double>(i),
                     .norm = static_cast<double>(i),
                     .clip = i > 2 ? 0.5 : 1.0,
                     .ms = i % 2 == 0 ? 10.0 : 30.0,
                     .tokens_per_s = i % 2 == 0 ? 3200.0 : 32e3 / 30});
  }
  return steps;
}

TEST(TrainingReport, HasAPointForEachStep) {
  const auto stretches = stretches_of(log_of(4));
  ASSERT_EQ(stretches.size(), 4U);
  EXPECT_EQ(stretches[1].first, 2);
  EXPECT_EQ(stretches[1].last, 2);
  EXPECT_DOUBLE_EQ(stretches[1].loss->mean, 10.9);
  EXPECT_DOUBLE_EQ(stretches[1].tokens_per_s, 3200);
}

TEST(TrainingReport, JoinsStepsWhereTheyAreMany) {
  std::vector<TrainingStep> steps = log_of(10);
  steps[4].validation_loss = 12;
  steps[5].validation_loss = 11.5;
  steps[7].spike = 6;
  steps[9].loss = steps[9].norm = std::nullopt;
  const auto stretches = stretches_of(steps, 3);  // 4, 4 and 2 steps
  ASSERT_EQ(stretches.size(), 3U);
  EXPECT_EQ(stretches[1].first, 5);
  EXPECT_EQ(stretches[1].last, 8);
  EXPECT_DOUBLE_EQ(stretches[1].loss->hi, 10.6);
  EXPECT_DOUBLE_EQ(stretches[1].loss->lo, 10.3);
  EXPECT_NEAR(stretches[1].loss->mean, 10.45, 1e-12);
  EXPECT_DOUBLE_EQ(stretches[1].norm->mean, 6.5);
  EXPECT_EQ(stretches[1].validation_loss, 11.5);
  EXPECT_EQ(stretches[1].spikes, 1);
  EXPECT_DOUBLE_EQ(stretches[1].learning_rate, 6e-4 / 8);
  EXPECT_NEAR(stretches[1].tokens_per_s, 4 * 32 / 0.08, 1e-9) << "all tokens over all time";
  EXPECT_FALSE(stretches[0].validation_loss);
  EXPECT_EQ(stretches[2].loss->lo, stretches[2].loss->hi) << "of the finite one";
  EXPECT_EQ(stretches_of(log_of(2001)).size(), 667U);
  EXPECT_EQ(stretches_of(log_of(1000)).size(), most_stretches);
}

// What a training says that ends well, was interrupted, overfits or has spikes: results/evidence.
TEST(TrainingReport, StandsOnATerminalAndInAFile) {
  const TrainingReport report = training_report("mine", training(20), log_of(20));
  EXPECT_NO_THROW((void)value_from<TrainingReport>(json_of(report), "report"));
  EXPECT_TRUE(training_summary(report).starts_with("Training loss 9.15 after 20 steps\nTraining loss 11.00 -> 9.15\n"))
      << training_summary(report);
}

TEST(TrainingReport, TellsSwingsFromLearningByHeart) {
  const auto codes_with = [](double swing) {
    std::vector<TrainingStep> steps = log_of(40);
    for (size_t i = 0; i < steps.size(); ++i) *steps[i].loss += i % 2 == 0 ? swing : -swing;
    steps[19].validation_loss = 8;
    steps[39].validation_loss = 9;
    std::vector<std::string> codes;
    for (const Remark& remark : training_report("t", training(40), steps).said.remarks) codes.push_back(remark.code);
    return codes;
  };
  EXPECT_EQ(codes_with(0), std::vector<std::string>{"overfitting"}) << "a steady fall is no swing";
  EXPECT_EQ(codes_with(0.6), std::vector<std::string>{"overfitting"});
  EXPECT_EQ(codes_with(1), std::vector<std::string>{"oscillates"});
}

TEST(TrainingReport, SaysThatALossIsNotFinite) {
  std::vector<TrainingStep> steps = log_of(3);
  steps[2].loss = steps[2].norm = steps[2].clip = std::nullopt;
  Training unclipped = training(20);
  unclipped.settings.clip = std::nullopt;
  TrainingReport report = training_report("mine", unclipped, steps);
  EXPECT_EQ(report.said.headline, "The loss of step 3 is not finite");
  EXPECT_EQ(report.said.remarks.front().severity, Severity::bad);
  EXPECT_EQ(report.said.lines.front(), "Training loss 11.00 \u2192 not finite");
  EXPECT_NO_THROW((void)value_from<TrainingReport>(json_of(report), "report"));

  for (TrainingStep& step : steps) step.loss = step.norm = std::nullopt;
  report = training_report("mine", unclipped, steps);
  EXPECT_FALSE(report.stretches.front().loss);
  EXPECT_NO_THROW((void)value_from<TrainingReport>(json_of(report), "report"));
}

}  // namespace training_summary_test
