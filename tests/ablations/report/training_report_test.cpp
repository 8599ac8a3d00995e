// A training's report: its points and its sentences.
#include "ablations/report/training_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace training_report_test {

using namespace ablations;

Training training(int64_t steps) {
  Training training{.created = "2026-11-26T10:00:00Z", .recipe_from = "--recipe", .parameters = 1000};
  TrainingSettings& settings = training.settings;
  settings.model = "tiny";
  settings.T = 32;
  settings.steps = steps;
  settings.learning_rate = {{.peak = 6e-4, .floor = 6e-5, .warmup_steps = 2, .decay_steps = steps}};
  settings.clip = 1.0;
  settings.threads = 2;
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

std::string finding(const TrainingReport& report, const char* chart) { return report.words.findings.at(chart); }

Card card(const TrainingReport& report, const std::string& what) {
  const auto found = std::ranges::find(report.words.cards, what, &Card::what);
  return found == report.words.cards.end() ? Card{} : *found;
}

TEST(TrainingReport, ShowsFewSamplesWithTheFirstAndTheLast) {
  const auto steps_of = [](std::vector<TrainingStep> steps) {
    std::vector<int64_t> shown;
    for (const SampleAfter& sample : training_report("folder", training(40), steps).samples)
      shown.push_back(sample.step);
    return shown;
  };
  std::vector<TrainingStep> steps = log_of(40);
  EXPECT_EQ(steps_of(steps), std::vector<int64_t>{});
  steps[0].sample = "one";
  EXPECT_EQ(steps_of(steps), std::vector<int64_t>{1});
  for (size_t i = 4; i < 40; i += 5) steps[i].sample = "more";
  EXPECT_EQ(steps_of(steps), (std::vector<int64_t>{1, 10, 20, 30, 40}));
}

TEST(TrainingReport, SaysWhatItIsOf) {
  EXPECT_TRUE(training_report("folder", training(4), log_of(4)).words.origin.subject.starts_with("Training "));
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

TEST(TrainingReport, SaysWhatCameOfIt) {
  std::vector<TrainingStep> steps = log_of(20);
  steps[9].validation_loss = 10.5;
  steps[19].validation_loss = 10.25;
  const TrainingReport report = training_report("mine", training(20), steps);
  EXPECT_EQ(report.device.name, "AMD EPYC, 2 threads");
  EXPECT_EQ(report.words.headline, "Validation loss 10.25 after 20 steps");
  EXPECT_TRUE(report.words.remarks.empty()) << report.words.remarks.front();
  EXPECT_EQ(finding(report, "training_loss"), "Loss 11.00 at the first step, 9.15 at the end, 10.25 on other text");
  EXPECT_EQ(finding(report, "learning_rate"), "Up to 0.0006 in 2 steps, then down to 6e-05 after step 20");
  EXPECT_EQ(finding(report, "norm"), "Median norm 10.5, clipped to 1 in 90 % of the steps");
  EXPECT_EQ(finding(report, "training_speed"), "2,133 tokens/s in the median step");
  EXPECT_EQ(card(report, "Steps").value, "20 of 20");
  EXPECT_EQ(card(report, "Steps").words, "640 tokens in 0:00, without validation and checkpoints");
  EXPECT_EQ(card(report, "Lowest validation loss").words, "after step 20");
  EXPECT_EQ(card(report, "Spikes").mood, Mood::good);
  const files::Json written = json_of(report);
  EXPECT_NO_THROW(files::check_schema(written, "training_report", "report"));
  const std::string shown = training_summary(report);
  EXPECT_TRUE(shown.starts_with("Validation loss 10.25 after 20 steps\nSteps: 20 of 20, 640 tokens in 0:00")) << shown;
}

TEST(TrainingReport, SaysWhatWentWrong) {
  std::vector<TrainingStep> steps = log_of(10);
  steps[1].validation_loss = 9;
  steps[8].validation_loss = 9.5;
  steps[6].spike = 7.5;
  TrainingReport report = training_report("mine", training(20), steps);
  ASSERT_EQ(report.words.remarks.size(), 2U);
  EXPECT_EQ(report.words.remarks[0], "It has not ended: 10 of 20 steps. `ladder train --resume` continues it.");
  EXPECT_TRUE(
      report.words.remarks[1].starts_with("The validation loss is 0.50 nats above its lowest, 9.00 after step 2"))
      << report.words.remarks[1];
  EXPECT_EQ(card(report, "Steps").mood, Mood::warn);
  EXPECT_EQ(card(report, "Spikes").words, "the first is the loss of step 7");

  steps.resize(3);
  steps[1].validation_loss = std::nullopt;
  steps[2].loss = steps[2].norm = steps[2].clip = std::nullopt;
  Training unclipped = training(20);
  unclipped.settings.clip = std::nullopt;
  report = training_report("mine", unclipped, steps);
  EXPECT_EQ(report.words.headline, "The loss of step 3 is not finite");
  EXPECT_EQ(finding(report, "training_loss"), "Loss 11.00 at the first step, not finite at the end");
  EXPECT_EQ(finding(report, "norm"), "Median norm 1.5, not clipped");
  EXPECT_EQ(card(report, "Lowest validation loss").value, "not taken");
  EXPECT_NO_THROW(files::check_schema(json_of(report), "training_report", "report"));

  for (TrainingStep& step : steps) step.loss = step.norm = std::nullopt;
  report = training_report("mine", unclipped, steps);
  EXPECT_EQ(finding(report, "norm"), "No norm of the gradients is finite");
  EXPECT_FALSE(report.stretches.front().loss);
  EXPECT_NO_THROW(files::check_schema(json_of(report), "training_report", "report"));
}

}  // namespace training_report_test
