// The loop of a training: what it tells, when it looks, saves and stops.
#include "ablations/training/training_loop.h"

#include "ablations/techniques/operations.h"
#include "model/config.h"
#include "study/training/spikes.h"
#include "tests/ablations/techniques/numbers.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace training_loop_test {

using namespace study;
using Why = TrainingEnd::Why;

using numbers::text_that_repeats;

// Six steps on the first 1,800 tokens, a validation loss over the others after every second.
Training six_steps() {
  Training training;
  TrainingSettings& settings = training.settings;
  settings.model = "tiny";
  settings.B = 1;
  settings.T = 8;
  settings.accumulation = 2;
  settings.steps = 6;
  settings.learning_rate = {.peak = 1e-2, .floor = 1e-3, .warmup_steps = 2, .decay_steps = 5};
  settings.weight_decay = 0.1;
  settings.clip = 1.0;
  settings.validation_share = 0.1;
  settings.validation_every = 2;
  settings.validation_batches = 3;
  training.save_every = 4;
  return training;
}

// What came of a training whose hooks write down how they were called.
struct Told {
  std::vector<TrainingStep> steps;
  std::vector<int64_t> saved;
  TrainingEnd end;

  [[nodiscard]] std::vector<double> losses() const {
    std::vector<double> losses;
    for (const TrainingStep& step : steps) losses.push_back(step.loss.value_or(-1));
    return losses;
  }
};

Told told_by(const Training& training, TrainingHooks hooks = {}, bool saves = true) {
  const TrainingData data = with_validation_share(text_that_repeats(), training.settings.validation_share);
  check_data(data, training.settings);
  model::Trainer trainer(model::preset("tiny"), model::recipe_from_json(training.settings.recipe, "recipe"),
                         trainer_options(training.settings), data.training, model::step_parts());
  Told told;
  hooks.on_step = [&](const TrainingStep& step, double seconds_left) {
    EXPECT_GE(seconds_left, 0);
    told.steps.push_back(step);
  };
  if (saves) {
    hooks.save = [&](const TrainingStep& step) {
      EXPECT_EQ(step.step, told.steps.back().step);
      told.saved.push_back(step.step);
    };
  }
  told.end = carry_on(trainer, training, data, hooks);
  return told;
}

TEST(CarryOn, TellsEveryStep) {
  const Training training = six_steps();
  const Told told = told_by(training);
  EXPECT_EQ(told.end.why, Why::finished);
  EXPECT_EQ(told.end.step, 6);
  EXPECT_EQ(told.saved, (std::vector<int64_t>{4, 6}));  // the last one, too
  ASSERT_EQ(told.steps.size(), 6U);
  for (const TrainingStep& step : told.steps) {
    const auto index = static_cast<size_t>(&step - told.steps.data());
    EXPECT_EQ(step.step, static_cast<int64_t>(index + 1));
    EXPECT_EQ(step.tokens, 16 * step.step);
    const TrainingSchedule& schedule = training.settings.learning_rate;
    const model::Schedule rates{schedule.peak, schedule.floor, schedule.warmup_steps, schedule.decay_steps};
    EXPECT_EQ(step.learning_rate, rates.at(static_cast<int64_t>(index)));
    EXPECT_EQ(step.validation_loss.has_value(), step.step % 2 == 0) << step.step;
    EXPECT_GT(step.norm.value_or(0), 0);
    EXPECT_NEAR(step.clip.value_or(0), std::min(1.0, 1 / (*step.norm + 1e-6)), 1e-6);
    EXPECT_NEAR(step.tokens_per_s * step.ms, 16e3, 1e-6);
    EXPECT_FALSE(step.mfu || step.spike);
  }
  EXPECT_LT(*told.steps.back().loss, *told.steps.front().loss);
  EXPECT_LT(*told.steps.back().validation_loss, *told.steps[1].validation_loss);
}

TEST(CarryOn, SamplesAfterTheFirstStepTheLastAndBetween) {
  Training training = six_steps();
  training.samples = {.every = 4};
  int64_t written = 0;
  TrainingHooks hooks;
  hooks.log_every = 100;
  hooks.sample = [&] { return std::to_string(++written); };
  const Told told = told_by(training, hooks);
  std::vector<std::string> samples;
  for (const TrainingStep& step : told.steps) samples.push_back(step.sample.value_or("-"));
  EXPECT_EQ(samples, (std::vector<std::string>{"1", "-", "-", "2", "-", "3"}));
  EXPECT_EQ(told.losses(), told_by(six_steps()).losses());
}

TEST(CarryOn, LosesNothingByLookingSeldom) {
  const Told often = told_by(six_steps());
  TrainingHooks seldom;
  seldom.log_every = 5;
  const Told told = told_by(six_steps(), seldom);
  EXPECT_EQ(told.losses(), often.losses());
  Training unwatched = six_steps();
  unwatched.settings.validation_every = 0;
  unwatched.settings.validation_share = 0;
  seldom.log_every = 100;
  const Told once = told_by(unwatched, seldom, false);
  ASSERT_EQ(once.steps.size(), 6U) << "the last step is looked at";
  EXPECT_EQ(once.steps.front().ms, once.steps.back().ms) << "a mean of all that were looked at together";
}

TEST(CarryOn, StopsAfterTheStepThatWasInterrupted) {
  for (const bool saves : {true, false}) {
    TrainingHooks hooks;
    int asked = 0;
    hooks.interrupted = [&] { return ++asked == 3; };
    hooks.log_every = 100;
    const Told told = told_by(six_steps(), hooks, saves);
    EXPECT_EQ(told.end.why, Why::interrupted);
    EXPECT_EQ(told.end.step, 3);
    EXPECT_EQ(told.steps.size(), 3U);
    EXPECT_EQ(told.saved, saves ? std::vector<int64_t>{3} : std::vector<int64_t>{});
    EXPECT_FALSE(told.steps.back().validation_loss) << "somebody waits";
  }
  TrainingHooks late;
  int asked = 0;
  late.interrupted = [&] { return ++asked == 6; };
  EXPECT_EQ(told_by(six_steps(), late).end.why, Why::finished);
}

TEST(CarryOn, StopsWhereSomethingIsNotFinite) {
  Training training = six_steps();
  training.settings.learning_rate = {.peak = 1e30, .floor = 1e30, .warmup_steps = 0, .decay_steps = 6};
  training.save_every = 1;
  const Told with_validation = told_by(training);
  EXPECT_EQ(with_validation.end.why, Why::not_finite);
  EXPECT_EQ(with_validation.end.what, "the validation loss after step 1");
  EXPECT_TRUE(with_validation.saved.empty()) << "what would be saved is of no use";

  training.settings.validation_every = 0;
  const Told without = told_by(training);
  EXPECT_EQ(without.end.why, Why::not_finite);
  EXPECT_EQ(without.end.step, 2);
  EXPECT_EQ(without.end.what, "the loss of step 2");
  EXPECT_EQ(without.saved, std::vector<int64_t>{1});
  ASSERT_EQ(without.steps.size(), 2U);
  EXPECT_FALSE(without.steps.back().loss) << "the step is told";

  // Also where nobody looks for some steps.
  TrainingHooks seldom;
  seldom.log_every = 5;
  const Told late = told_by(training, seldom, false);
  EXPECT_EQ(late.end.what, "the loss of step 2");
  EXPECT_EQ(late.steps.size(), 2U);
}

TEST(CarryOn, MarksSpikes) {
  TrainingHooks hooks;
  hooks.losses_before = std::vector<double>(spike_least, 1.0);
  const Told told = told_by(six_steps(), hooks);
  EXPECT_GT(told.steps.front().spike.value_or(0), 100);  // from 1 to 10.8
  EXPECT_FALSE(told.steps.back().spike);
}

TEST(TrainingData, KeepsTheLastPartForValidation) {
  const TrainingData data = with_validation_share(text_that_repeats(1000), 0.25);
  EXPECT_EQ(data.training.tokens.size(), 750U);
  ASSERT_EQ(data.validation.tokens.size(), 250U);
  EXPECT_EQ(data.training.tokens.back(), text_that_repeats().tokens[749]);
  EXPECT_EQ(data.validation.tokens.front(), text_that_repeats().tokens[750]);
  EXPECT_EQ(with_validation_share(text_that_repeats(1000), 0).training.tokens, text_that_repeats(1000).tokens);
  EXPECT_TRUE(with_validation_share(text_that_repeats(1000), 0).validation.tokens.empty());
}

TEST(TrainingData, RefusesBatchesThatDoNotFit) {
  const auto refusal = [](int64_t tokens, int64_t validation_batches) {
    Training training = six_steps();
    training.settings.validation_batches = validation_batches;
    return refusal_of(
        [&] { return check_data(with_validation_share(text_that_repeats(tokens), 0.1), training.settings), 0; });
  };
  EXPECT_EQ(refusal(170, 2), "accepted");
  EXPECT_EQ(refusal(170, 3),
            "--validation-batches must be between 1 and 2, the batches of 1 x 8 that are there for validation, got 3");
  EXPECT_EQ(
      refusal(80, 1),
      "made up: its last 8 tokens, for validation (--validation-share 0.1): 8 tokens; a batch of 1 x 8 needs 1 x 8 "
      "+ 1");
  EXPECT_EQ(refusal(9, 1),
            "made up: its last 0 tokens, for validation (--validation-share 0.1): 0 tokens; a batch of 1 "
            "x 8 needs 1 x 8 + 1");
  EXPECT_EQ(refusal(8, 1),
            "made up: without its last 0 tokens (--validation-share 0.1): 8 tokens; a batch of 1 x 8 "
            "needs 1 x 8 + 1");
}

}  // namespace training_loop_test
