#include "ablations/training/training_loop.h"

#include "harness/machine/machine.h"
#include "study/trace/roofline.h"
#include "study/training/spikes.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace ablations {

namespace {

model::Schedule rates_of(const TrainingSchedule& schedule) {
  return {schedule.peak, schedule.floor, schedule.warmup_steps, schedule.decay_steps};
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::optional<double> if_finite(double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; }

// What is done after a step, unless somebody waits for the program's end. A checkpoint has a validation loss.
struct Due {
  bool saves, validates, samples;
};

bool is_due(int64_t every, int64_t step, const TrainingSettings& settings) {
  return every > 0 && (step == settings.steps || step % every == 0);
}

Due due_after(int64_t step, const Training& training, const TrainingHooks& hooks) {
  const TrainingSettings& settings = training.settings;
  const bool saves = hooks.save && is_due(training.save_every, step, settings);
  return {.saves = saves,
          .validates = settings.validation_every > 0 && (saves || is_due(settings.validation_every, step, settings)),
          .samples = training.samples && (step == 1 || is_due(training.samples->every, step, settings))};
}

// Adds the validation loss and the sample that are due. Returns what is not finite.
std::string look(model::Trainer& trainer, const Training& training, const TrainingData& data,
                 const TrainingHooks& hooks, const Due& due, TrainingStep& step) {
  if (due.validates) {
    step.validation_loss = if_finite(trainer.evaluate(data.validation, training.settings.validation_batches));
    if (!step.validation_loss) return fmt::format("the validation loss after step {}", step.step);
  }
  if (due.samples) {
    try {
      step.sample = hooks.sample();
    } catch (const std::invalid_argument&) {  // finite weights may still give logits that are not
      return fmt::format("a logit after step {}", step.step);
    }
  }
  return "";
}

}  // namespace

TrainingData with_validation_share(model::TokenStream text, double share) {
  const auto all = text.tokens.size();
  const auto count = static_cast<size_t>(share * static_cast<double>(all));
  if (share == 0) return {std::move(text), {}};
  const std::string source = std::move(text.source);
  const auto begin = text.tokens.end() - static_cast<std::ptrdiff_t>(count);
  model::TokenStream validation{
      {begin, text.tokens.end()},
      fmt::format("{}: its last {} tokens, for validation (--validation-share {})", source, count, share),
      ""};
  text.tokens.erase(begin, text.tokens.end());
  text.sha256.clear();
  text.source = fmt::format("{}: without its last {} tokens (--validation-share {})", source, count, share);
  return {std::move(text), std::move(validation)};
}

void check_data(const TrainingData& data, const TrainingSettings& settings) {
  (void)model::BatchLoader(data.training, settings.sequences(), settings.T, settings.seed);
  if (settings.validation_every == 0) return;
  const int64_t windows = model::BatchLoader(data.validation, settings.sequences(), settings.T, 0).windows();
  if (settings.validation_batches >= 1 && settings.validation_batches <= windows) return;
  throw std::invalid_argument(fmt::format(
      "--validation-batches must be between 1 and {}, the batches of {} x {} that are there for validation, got {}",
      windows, settings.sequences(), settings.T, settings.validation_batches));
}

model::TrainerOptions trainer_options(const TrainingSettings& settings, int64_t first_step, const model::Ranks& ranks) {
  return {.B = settings.B,
          .T = settings.T,
          .accumulation = settings.accumulation,
          .max_steps = settings.steps,
          .first_step = first_step,
          .seed = settings.seed,
          .windows = model::Windows{settings.random_windows},
          .schedule = rates_of(settings.learning_rate),
          .weight_decay = settings.weight_decay,
          .max_norm = settings.clip.value_or(std::numeric_limits<double>::infinity()),
          .ranks = ranks};
}

TrainingEnd carry_on(model::Trainer& trainer, const Training& training, const TrainingData& data,
                     const TrainingHooks& hooks) {
  using Why = TrainingEnd::Why;
  const TrainingSettings& settings = training.settings;
  const std::string gpu = harness::this_machine().gpu ? harness::this_machine().gpu->name : "";
  const double flops_of_one_gpu = training.flops_per_step / static_cast<double>(settings.ranks.value_or(1));
  study::SpikeWatch spikes;
  for (const double loss : hooks.losses_before) (void)spikes.take(loss);
  const int64_t first = trainer.steps_taken();
  const auto begin = Clock::now();
  auto looked = begin;   // when the steps' figures were read last
  int64_t seen = first;  // how many of them have been read
  const auto read = [&](int64_t step) {
    const std::vector<model::StepValues> values = trainer.values(seen);  // waits for the device
    const double ms = seconds_since(looked) * 1e3 / static_cast<double>(step - seen);
    std::vector<TrainingStep> steps;
    for (const model::StepValues& value : values) {
      const int64_t number = ++seen;
      steps.push_back(
          {.step = number,
           .tokens = number * settings.tokens_per_step(),
           .loss = if_finite(value.loss),
           .learning_rate = rates_of(settings.learning_rate).at(number - 1),
           .norm = if_finite(value.norm),
           .clip = if_finite(value.clip),
           .ms = ms,
           .tokens_per_s = static_cast<double>(settings.tokens_per_step()) / (ms / 1e3),
           .mfu = study::mfu(device_of(settings.recipe) == DeviceKind::cpu ? "" : gpu, flops_of_one_gpu, ms).value,
           .spike = spikes.take(value.loss)});
    }
    return steps;
  };
  for (int64_t step = first + 1; step <= settings.steps; ++step) {
    trainer.step();
    const bool stops = trainer.on_any_rank(hooks.interrupted()) && step < settings.steps;
    const Due due =
        stops ? Due{.saves = bool(hooks.save), .validates = false, .samples = false} : due_after(step, training, hooks);
    if (!stops && !due.saves && !due.validates && !due.samples && !is_due(hooks.log_every, step, settings)) continue;

    std::vector<TrainingStep> steps = read(step);
    std::string failure;
    for (size_t i = 0; i < steps.size() && failure.empty(); ++i) {
      failure = failure_of(steps[i], settings);
      if (!failure.empty()) steps.resize(i + 1);
    }
    if (failure.empty() && (due.saves || due.samples)) {
      const std::string weight = weight_not_finite(trainer.model());
      if (!weight.empty()) failure = fmt::format("after step {} the weight {}", step, weight);
    }
    if (failure.empty()) failure = look(trainer, training, data, hooks, due, steps.back());
    const double seconds_left =
        seconds_since(begin) / static_cast<double>(step - first) * static_cast<double>(settings.steps - step);
    for (const TrainingStep& one : steps) hooks.on_step(one, seconds_left);
    if (!failure.empty()) return {.why = Why::not_finite, .step = steps.back().step, .what = failure};
    if (due.saves) hooks.save(steps.back());
    if (stops) return {.why = Why::interrupted, .step = step};
    looked = Clock::now();
  }
  return {.why = Why::finished, .step = settings.steps};
}

std::string complete_last_step(model::Trainer& trainer, const Training& training, const TrainingData& data,
                               const TrainingHooks& hooks, Checkpoint& checkpoint, TrainingStep& step) {
  Due due = due_after(checkpoint.step, training, hooks);
  due.validates = due.validates && !checkpoint.validation_loss;
  due.samples = due.samples && hooks.sample && !step.sample;
  std::string failure = look(trainer, training, data, hooks, due, step);
  if (due.saves && due.validates) checkpoint.validation_loss = step.validation_loss;
  return failure;
}

std::string weight_not_finite(const model::GPT2& gpt2) {
  for (const model::Parameter& parameter : gpt2.parameters()) {
    if (!at::isfinite(parameter.tensor).all().item<bool>()) return parameter.name;
  }
  return "";
}

}  // namespace ablations
