#include "ablations/report/training_report.h"

#include "ablations/report/origin.h"
#include "ablations/text/figures.h"
#include "ablations/text/text.h"
#include "ablations/training/spikes.h"
#include "harness/stats/stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>

namespace ablations {

namespace {

using Steps = std::vector<TrainingStep>;

constexpr double rise_that_matters = 0.05;  // nats, of a validation loss above the lowest one

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

// Mean over the last tenth of the steps, and over a hundred at most: a single step's loss is that of its batch.
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
  const std::string fault = fault_of(last, training.settings);
  if (!fault.empty()) return fmt::format("T{} is not finite", fault.substr(1));  // "the loss of step 12"
  const Steps with = validated(steps);
  if (with.empty()) {
    return fmt::format("Training loss {:.2f} after {}", loss_at_the_end(steps).value_or(*last.loss),
                       number_of(last.step, "step"));
  }
  return fmt::format("Validation loss {:.2f} after {}", *with.back().validation_loss,
                     number_of(with.back().step, "step"));
}

std::string loss_finding(const Steps& steps) {
  const auto figure = [](const std::optional<double>& loss) {
    return loss ? fmt::format("{:.2f}", *loss) : "not finite";
  };
  const Steps with = validated(steps);
  return fmt::format("Loss {} at the first step, {} at the end{}", figure(steps.front().loss),
                     figure(loss_at_the_end(steps)),
                     with.empty() ? "" : fmt::format(", {:.2f} on other text", *with.back().validation_loss));
}

std::string schedule_finding(const TrainingSchedule& schedule) {
  const std::string down = fmt::format("down to {:.3g} after step {}", schedule.floor, schedule.decay_steps);
  if (schedule.warmup_steps == 0) return fmt::format("From {:.3g} {}", schedule.peak, down);
  return fmt::format("Up to {:.3g} in {}, then {}", schedule.peak, number_of(schedule.warmup_steps, "step"), down);
}

// "clipped to 1 in 82 % of the steps"
std::string clipping(const Training& training, const Steps& steps) {
  if (!training.settings.clip) return "not clipped";
  const auto clipped = std::ranges::count_if(steps, [](const TrainingStep& step) { return step.clip.value_or(1) < 1; });
  return fmt::format("clipped to {} in {} of the steps", plain(*training.settings.clip),
                     percent(static_cast<double>(clipped) / static_cast<double>(steps.size())));
}

std::string norm_finding(const Training& training, const Steps& steps) {
  const std::optional<double> median = median_over(steps, &TrainingStep::norm);
  if (!median) return "No norm of the gradients is finite";
  return fmt::format("Median norm {}, {}", plain(*median), clipping(training, steps));
}

std::string speed_finding(const Steps& steps) {
  const std::optional<double> mfu = median_over(steps, &TrainingStep::mfu);
  return fmt::format("{} tokens/s in the median step{}", plain(median_rate(steps)),
                     mfu ? fmt::format(", MFU {}", percent(*mfu)) : "");
}

std::vector<std::string> remarks_on(const Training& training, const Steps& steps) {
  std::vector<std::string> remarks;
  const TrainingStep& last = steps.back();
  if (!fault_of(last, training.settings).empty()) {
    remarks.emplace_back(
        "The training stopped there. Try a smaller `--lr`, more `--warmup-steps`, or a smaller `--clip`.");
  } else if (ended_early(training, steps)) {
    remarks.push_back(fmt::format("It has not ended: {} of {} steps. `ladder train --resume` continues it.", last.step,
                                  training.settings.steps));
  }
  const Steps with = validated(steps);
  if (with.empty()) return remarks;
  const TrainingStep best = *best_validated(steps);
  const double rise = *with.back().validation_loss - *best.validation_loss;
  if (rise > rise_that_matters) {
    remarks.push_back(
        fmt::format("The validation loss is {:.2f} nats above its lowest, {:.2f} after step {}: since then the model "
                    "learns the text by heart. The link `best` leads to the saved checkpoint with the lowest one.",
                    rise, *best.validation_loss, best.step));
  }
  return remarks;
}

std::vector<Card> cards_on(const Training& training, const Steps& steps) {
  const TrainingStep& last = steps.back();
  const std::optional<TrainingStep> best = best_validated(steps);
  const auto is_spike = [](const TrainingStep& step) { return step.spike.has_value(); };
  const auto spike = std::ranges::find_if(steps, is_spike);
  std::vector<Card> cards{{"Steps", fmt::format("{} of {}", last.step, training.settings.steps),
                           ended_early(training, steps) ? Mood::warn : Mood::good,
                           fmt::format("{} tokens in {}, without validation and checkpoints",
                                       count(static_cast<double>(last.tokens)), clock_time(seconds_of(steps)))}};
  cards.push_back(best ? Card{"Lowest validation loss", fmt::format("{:.2f}", *best->validation_loss), Mood::plain,
                              fmt::format("after step {}", best->step)}
                       : Card{"Lowest validation loss", "not taken", Mood::plain, "no text was kept for it"});
  cards.push_back(spike == steps.end()
                      ? Card{"Spikes", "none", Mood::good,
                             fmt::format("no loss is {:g} standard deviations above those before it", spike_z)}
                      : Card{"Spikes", std::to_string(std::ranges::count_if(steps, is_spike)), Mood::warn,
                             fmt::format("the first is the loss of step {}", spike->step)});
  const std::optional<double> norm = median_over(steps, &TrainingStep::norm);
  cards.push_back({"Norm of the gradients", norm ? plain(*norm) : "not finite", norm ? Mood::plain : Mood::bad,
                   "the median; " + clipping(training, steps)});
  cards.push_back({"Tokens per second", plain(median_rate(steps)), Mood::plain, "in the median step"});
  return cards;
}

std::vector<Term> terms_of(const std::vector<TrainingStretch>& stretches) {
  std::vector<Term> terms{
      {"The loss",
       "of a step is the mean over its tokens, in nats: the natural logarithm of how many words the model hesitates "
       "between. At the end it is the mean of the last tenth of the steps, and of a hundred at most."},
      {"The validation loss",
       "is the loss on text that is not trained on. When it rises while the loss falls, the model learns the text by "
       "heart."},
      {"The learning rate", "rises in a line during the warm-up and falls along half a cosine."},
      {"The norm",
       "is of all gradients together, before they are clipped. A norm that grows from step to step announces trouble."},
      {"A spike",
       fmt::format("is a loss {:g} standard deviations or more above the {} losses before it.", spike_z, spike_window)},
      {"Tokens per second", "are those of the steps alone: validation and checkpoints take their time besides."}};
  const TrainingStretch& first = stretches.front();
  if (const int64_t length = first.last - first.first + 1; length > 1) {
    terms.push_back({"A point", fmt::format("of a line is the mean of {}, a band their lowest and highest.",
                                            number_of(length, "step"))});
  }
  return terms;
}

}  // namespace

NamedDevice trained_on(const Training& training) {
  const Environment& environment = training.environment;
  const model::Device device = training.settings.recipe.device;
  if (device == model::Device::cuda) return {device, environment.gpu ? environment.gpu->name : "a GPU"};
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
  report.words = {.headline = training_headline(training, steps),
                  .remarks = remarks_on(training, steps),
                  .cards = cards_on(training, steps),
                  .how_to_read = terms_of(report.stretches),
                  .findings = {{"training_loss", loss_finding(steps)},
                               {"learning_rate", schedule_finding(training.settings.learning_rate)},
                               {"norm", norm_finding(training, steps)},
                               {"training_speed", speed_finding(steps)}},
                  .origin = origin_of(training, report.device)};
  return report;
}

std::string training_summary(const TrainingReport& report, const Look& look) {
  const TrainingWords words = with_printable_texts(report.words);
  std::string text = look.painted(Style::strong, wrapped(words.headline));
  for (const Card& card : words.cards) {
    text += wrapped(fmt::format("{}: {}{}", card.what, card.value, card.words.empty() ? "" : ", " + card.words), "  ");
  }
  for (const std::string& remark : words.remarks) text += wrapped(remark, "  ");
  return text;
}

}  // namespace ablations
