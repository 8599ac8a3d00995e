#include "plots/training_summary.h"

#include "harness/stats/stats.h"
#include "plots/report_document.h"
#include "plots/sentences.h"
#include "study/training/spikes.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>

namespace plots {

namespace {

using Steps = std::vector<TrainingStep>;

constexpr double rise_that_matters = 0.05;  // nats, of a validation loss above the lowest one
constexpr double swing_that_matters = 1;    // nats; a batch's text alone makes 0.2 to 0.5

std::optional<Spread> spread_of(std::span<const TrainingStep> steps, std::optional<double> TrainingStep::*value) {
  std::vector<double> finite;
  for (const TrainingStep& step : steps) {
    if (step.*value) finite.push_back(*(step.*value));
  }
  if (finite.empty()) return std::nullopt;
  const auto [lo, hi] = std::ranges::minmax(finite);
  const double mean = std::accumulate(finite.begin(), finite.end(), 0.0) / static_cast<double>(finite.size());
  return Spread{.lo = lo, .mean = std::clamp(mean, lo, hi), .hi = hi};
}

// By how much the losses of the last half scatter from one step to the next (von Neumann 1941), which a steady fall
// does not change. 0: too few are finite.
double swing_of(const Steps& steps) {
  double squares = 0, pairs = 0;
  for (size_t i = steps.size() / 2 + 1; i < steps.size(); ++i) {
    if (!steps[i].loss || !steps[i - 1].loss) continue;
    squares += (*steps[i].loss - *steps[i - 1].loss) * (*steps[i].loss - *steps[i - 1].loss);
    ++pairs;
  }
  return pairs < 10 ? 0 : std::sqrt(squares / pairs / 2);
}

double seconds_of(std::span<const TrainingStep> steps) {
  double ms = 0;
  for (const TrainingStep& step : steps) ms += step.ms;
  return ms / 1e3;
}

TrainingStretch stretch_of(std::span<const TrainingStep> steps) {
  const TrainingStep &first = steps.front(), &last = steps.back();
  TrainingStretch stretch{.first = first.step,
                          .last = last.step,
                          .loss = spread_of(steps, &TrainingStep::loss),
                          .norm = spread_of(steps, &TrainingStep::norm),
                          .learning_rate = last.learning_rate};
  double tokens = 0;
  for (const TrainingStep& step : steps) {
    tokens += step.tokens_per_s * step.ms / 1e3;
    if (step.validation_loss) stretch.validation_loss = step.validation_loss;
    if (step.spike) ++stretch.spikes;
  }
  const double seconds = seconds_of(steps);
  if (seconds > 0) stretch.tokens_per_s = tokens / seconds;
  return stretch;
}

// The steps with a validation loss.
Steps validated(const Steps& steps) {
  Steps with;
  std::ranges::copy_if(steps, std::back_inserter(with),
                       [](const TrainingStep& step) { return step.validation_loss.has_value(); });
  return with;
}

// Where it is the lowest. None: it was never taken.
std::optional<TrainingStep> best_validated(const Steps& steps) {
  const Steps with = validated(steps);
  if (with.empty()) return std::nullopt;
  return *std::ranges::min_element(with, {}, [](const TrainingStep& step) { return *step.validation_loss; });
}

// Mean over the last tenth of the steps, at most a hundred: a single step's loss depends on its batch.
std::optional<double> loss_at_the_end(const Steps& steps) {
  const size_t count = std::clamp<size_t>(steps.size() / 10, 1, 100);
  const std::optional<Spread> spread = spread_of(std::span(steps).last(count), &TrainingStep::loss);
  return spread ? std::optional(spread->mean) : std::nullopt;
}

// None: there is no such value in any step.
std::optional<double> median_over(const Steps& steps, std::optional<double> TrainingStep::*value) {
  std::vector<double> there;
  for (const TrainingStep& step : steps) {
    if (step.*value) there.push_back(*(step.*value));
  }
  return there.empty() ? std::nullopt : std::optional(harness::median(there));
}

double median_rate(const Steps& steps) {
  std::vector<double> rates;
  for (const TrainingStep& step : steps) rates.push_back(step.tokens_per_s);
  return harness::median(rates);
}

bool ended_early(const Training& training, const Steps& steps) { return steps.back().step < training.settings.steps; }

std::vector<SampleAfter> few_samples(const Steps& steps) {
  std::vector<SampleAfter> all;
  for (const TrainingStep& step : steps) {
    if (step.sample) all.push_back({step.step, *step.sample});
  }
  const size_t count = std::min(all.size(), most_samples);
  std::vector<SampleAfter> few;
  for (size_t i = 0; i < count; ++i) few.push_back(all[count == 1 ? 0 : i * (all.size() - 1) / (count - 1)]);
  return few;
}

// ---- sentences

std::string training_headline(const Training& training, const Steps& steps) {
  const TrainingStep& last = steps.back();
  const std::string failure = failure_of(last, training.settings);
  if (!failure.empty()) return fmt::format("T{} is not finite", failure.substr(1));  // "the loss of step 12"
  const Steps with = validated(steps);
  if (with.empty()) {
    return fmt::format("Training loss {:.2f} after {}", loss_at_the_end(steps).value_or(*last.loss),
                       number_of(last.step, "step"));
  }
  const TrainingStep best = *best_validated(steps);
  const bool has_risen = *with.back().validation_loss - *best.validation_loss > rise_that_matters;
  return fmt::format("{} {:.2f} after {}", has_risen ? "Lowest validation loss" : "Validation loss",
                     has_risen ? *best.validation_loss : *with.back().validation_loss,
                     number_of(has_risen ? best.step : with.back().step, "step"));
}

std::vector<std::string> lines_on(const Training& training, const Steps& steps) {
  const auto figure = [](const std::optional<double>& loss) {
    return loss ? fmt::format("{:.2f}", *loss) : "not finite";
  };
  const TrainingStep& last = steps.back();
  const std::optional<double> mfu = median_over(steps, &TrainingStep::mfu);
  std::string losses =
      fmt::format("Training loss {} \u2192 {}", figure(steps.front().loss), figure(loss_at_the_end(steps)));
  if (const auto best = best_validated(steps)) {
    losses += fmt::format(" \u00b7 lowest validation loss {:.2f}, after step {}", *best->validation_loss, best->step);
  }
  std::string speed = fmt::format("{} tokens/s{} \u00b7 {} tokens in {}", abbreviated(median_rate(steps)),
                                  mfu ? ", MFU " + percent(*mfu) : "", abbreviated(static_cast<double>(last.tokens)),
                                  clock_time(seconds_of(steps)));
  if (training.settings.clip) {
    const auto clipped =
        std::ranges::count_if(steps, [](const TrainingStep& step) { return step.clip.value_or(1) < 1; });
    speed += fmt::format(" \u00b7 clipped to a norm of {} in {} of the steps", plain(*training.settings.clip),
                         percent(static_cast<double>(clipped) / static_cast<double>(steps.size())));
  }
  return {losses, speed};
}

std::vector<Remark> remarks_on(const Training& training, const Steps& steps) {
  std::vector<Remark> remarks;
  const TrainingStep& last = steps.back();
  if (!failure_of(last, training.settings).empty()) {
    remarks.push_back({Severity::bad, "not-finite", "It diverged and stopped there.",
                       "Try a smaller `--lr`, more `--warmup-steps`, or a smaller `--clip`."});
  } else if (ended_early(training, steps)) {
    remarks.push_back({Severity::info, "unfinished",
                       fmt::format("It has not ended: {} of {} steps.", plain(static_cast<double>(last.step)),
                                   plain(static_cast<double>(training.settings.steps))),
                       "`ladder train --resume` continues it."});
  }
  const double swing = swing_of(steps);
  if (swing >= swing_that_matters) {
    remarks.push_back({Severity::warn, "oscillates",
                       fmt::format("It oscillates: in the last half a step's loss is {:.1f} nats above or below the "
                                   "others' (standard deviation).",
                                   swing),
                       "Try a smaller `--lr`, or more tokens in a step."});
  }
  const Steps with = validated(steps);
  if (!with.empty() && swing < swing_that_matters) {
    const TrainingStep best = *best_validated(steps);
    const double rise = *with.back().validation_loss - *best.validation_loss;
    if (rise > rise_that_matters) {
      remarks.push_back({Severity::warn, "overfitting",
                         fmt::format("The validation loss is {:.2f} nats above its lowest, {:.2f} after step {}: since "
                                     "then the model learns the text by heart.",
                                     rise, *best.validation_loss, best.step),
                         "The link `best` leads to the checkpoint with the lowest one."});
    }
  }
  const auto is_spike = [](const TrainingStep& step) { return step.spike.has_value(); };
  if (const auto spike = std::ranges::find_if(steps, is_spike); spike != steps.end()) {
    remarks.push_back(
        {Severity::info, "spikes",
         fmt::format("{}: the first is the loss of step {}, {:g} standard deviations above those before it.",
                     number_of(std::ranges::count_if(steps, is_spike), "spike"), spike->step, spike_z),
         ""});
  }
  return remarks;
}

}  // namespace

NamedDevice trained_on(const Training& training) {
  const Environment& environment = training.environment;
  const DeviceKind device = device_of(training.settings.recipe);
  if (device == DeviceKind::cuda) return {device, environment.gpu ? environment.gpu->name : "a GPU"};
  return {device, fmt::format("{}, {}", environment.cpu.model.value_or("a CPU"),
                              number_of(training.settings.threads, "thread"))};
}

std::vector<TrainingStretch> stretches_of(const std::vector<TrainingStep>& steps, size_t most) {
  const size_t length = (steps.size() + most - 1) / most;
  std::vector<TrainingStretch> stretches;
  for (size_t begin = 0; begin < steps.size(); begin += length) {
    stretches.push_back(stretch_of(std::span(steps).subspan(begin, std::min(length, steps.size() - begin))));
  }
  return stretches;
}

TrainingReport training_report(const std::string& source, const Training& training,
                               const std::vector<TrainingStep>& steps) {
  TrainingReport report{.source = source,
                        .device = trained_on(training),
                        .training = training,
                        .steps = steps.back().step,
                        .stretches = stretches_of(steps),
                        .samples = few_samples(steps)};
  report.said = {.title = title_of(training, report.device),
                 .headline = training_headline(training, steps),
                 .lines = lines_on(training, steps),
                 .remarks = remarks_on(training, steps),
                 .command = ""};
  return report;
}

std::string training_summary(const TrainingReport& report, const Look& look) {
  return said_text(with_printable_texts(report.said), look);
}

}  // namespace plots
