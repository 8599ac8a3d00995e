// `ladder train --lr-sweep`: a short training for each learning rate, and what they show.
#include "ablations/gpt2/gpt2_workload.h"
#include "ablations/techniques/operations.h"
#include "ablations/training/training_loop.h"
#include "cli/draw.h"
#include "cli/gpt2/tokenize.h"
#include "cli/gpt2/training_request.h"
#include "cli/place.h"
#include "files/files.h"
#include "files/printable.h"
#include "harness/process/locks.h"
#include "harness/process/process.h"
#include "model/trainer.h"
#include "plots/lr_sweep_text.h"
#include "plots/training_summary.h"
#include "study/training/rate_verdict.h"
#include "study/training/training_log.h"
#include "text/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

namespace cli {

namespace fs = std::filesystem;
using files::printable;

namespace {

constexpr int64_t most_sweep_steps = 10000;  // as the schema of a sweep has it

void check_sweep_steps(int64_t steps) {
  if (steps >= least_sweep_steps && steps <= most_sweep_steps) return;
  throw std::invalid_argument(
      fmt::format("--lr-sweep: each training must have between {} and {} steps (--steps, --tokens or --epochs), got {}",
                  least_sweep_steps, most_sweep_steps, steps));
}

// Prepares the trainings. Their validation losses at the end are compared.
PreparedTraining prepared_sweep(TrainingFlags flags, double lowest) {
  flags.lr = lowest;
  PreparedTraining prepared = prepared_training(flags);
  TrainingSettings& settings = prepared.training.settings;
  check_sweep_steps(settings.steps);
  if (settings.ranks) throw std::invalid_argument("--lr-sweep: trains in one process, and not with data_parallel ddp");
  if (settings.validation_batches == 0) {
    throw std::invalid_argument("--lr-sweep: needs text to judge the rates by; --validation-share must be above 0");
  }
  settings.validation_every = 0;  // only at the end
  return prepared;
}

std::vector<TrainingSchedule> schedules_of(TrainingFlags flags, const std::vector<double>& rates, int64_t steps) {
  std::vector<TrainingSchedule> schedules;
  for (const double rate : rates) {
    flags.lr = rate;
    schedules.push_back(schedule_of(flags, steps));
  }
  return schedules;
}

// Trains with one rate from the first step on. None if it was interrupted. `untrained`: the loss before, once taken.
std::optional<SweptRate> trained_with(const PreparedTraining& prepared, const TrainingSchedule& schedule,
                                      std::optional<double>& untrained) {
  Training training = prepared.training;
  TrainingSettings& settings = training.settings;
  settings.learning_rate = schedule;
  model::Trainer trainer(config_of(prepared.options), prepared.options.recipe, trainer_options(settings),
                         prepared.data.training, model::step_parts());
  load_first_weights(trainer, training);
  const auto held_out = [&]() -> std::optional<double> {
    const double loss = trainer.evaluate(prepared.data.validation, settings.validation_batches);
    return std::isfinite(loss) ? std::optional(loss) : std::nullopt;
  };
  if (!untrained) untrained = held_out();
  SweptRate rate{.learning_rate = schedule};
  TrainingHooks hooks;
  hooks.log_every = device_of(settings.recipe) == DeviceKind::cuda ? 10 : 1;
  hooks.on_step = [&](const TrainingStep& step, double /*seconds_left*/) { rate.losses.push_back(step.loss); };
  hooks.interrupted = harness::interrupted;
  const TrainingEnd end = carry_on(trainer, training, prepared.data, hooks);
  if (end.why == TrainingEnd::Why::interrupted) return std::nullopt;
  rate.not_finite = end.what;
  if (rate.not_finite.empty() && !(rate.held_out = held_out())) rate.not_finite = "the validation loss";
  return rate;
}

void print_sweep_begin(const PreparedTraining& prepared, size_t rates) {
  const TrainingSettings& settings = prepared.training.settings;
  fmt::print(stderr, "recipe: {}\n", printable(prepared.training.recipe_from));
  fmt::print(stderr, "{}, {} parameters: {}, each {} of {} tokens\n", settings.model,
             abbreviated(static_cast<double>(prepared.training.parameters)),
             number_of(static_cast<int64_t>(rates), "rate"), number_of(settings.steps, "step"),
             settings.tokens_per_step());
}

void print_rate(const SweptRate& rate, const std::optional<double>& untrained, size_t number, size_t rates) {
  const auto figure = [](const std::optional<double>& loss) {
    return loss ? fmt::format("{:.4g}", *loss) : "not finite";
  };
  fmt::print(stderr, "rate {}/{}: {:.3g}, loss {} -> {}\n", number, rates, rate.learning_rate.peak, figure(untrained),
             figure(rate.held_out));
}

void print_sweep_interruption(const LearningRateSweep& sweep, const std::string& out) {
  const bool is_kept = !out.empty() && !sweep.rates.empty();
  fmt::print(stderr, "interrupted after {} of {} rates{}\n", sweep.rates.size(), sweep.planned,
             is_kept ? "; draw what is there with: ladder report " + printable(out) : "");
}

// Writes lr_sweep.json. Throws std::runtime_error if the disk is full.
void write_sweep(const LearningRateSweep& sweep, const fs::path& out) {
  try {
    write_document(out / lr_sweep_file, sweep);
  } catch (const std::system_error& error) {
    throw std::runtime_error(
        fmt::format("{}: the sweep stops after {} of {} rates", error.what(), sweep.rates.size(), sweep.planned));
  }
}

}  // namespace

int lr_sweep(const TrainingFlags& flags, const std::string& range) {
  const std::vector<double> rates = rates_of(range);
  const fs::path out = files::named_folder(flags.out);
  if (!out.empty()) {
    check_can_make(out);
    check_may_begin_training(out);
  }
  PreparedTraining prepared = prepared_sweep(flags, rates.front());
  const std::vector<TrainingSchedule> schedules = schedules_of(flags, rates, prepared.training.settings.steps);
  prepare_process(prepared.options);
  prepared.training.environment = environment_here();
  std::optional<harness::FolderLock> lock;
  if (!out.empty()) {
    fs::create_directories(out);
    lock.emplace(out);
    check_may_begin_training(out);  // nobody else has begun one meanwhile
  }

  LearningRateSweep sweep{
      .device = trained_on(prepared.training), .training = prepared.training, .planned = std::ssize(rates)};
  std::ranges::for_each(prepared.notes, say_note);
  if (!flags.json) print_sweep_begin(prepared, rates.size());
  harness::catch_interrupts();
  for (const TrainingSchedule& schedule : schedules) {
    std::optional<SweptRate> rate;
    if (!harness::interrupted()) rate = trained_with(prepared, schedule, sweep.untrained);
    if (!rate) break;
    if (!flags.json) print_rate(*rate, sweep.untrained, sweep.rates.size() + 1, rates.size());
    sweep.rates.push_back(*std::move(rate));
    sweep = with_said(with_verdicts(std::move(sweep)));
    if (!out.empty()) write_sweep(sweep, out);  // so that what fails later costs no rate
  }
  const bool stopped = std::ssize(sweep.rates) < sweep.planned;
  if (stopped) print_sweep_interruption(sweep, flags.out);
  if (sweep.rates.empty()) return 130;
  fmt::print("{}", flags.json ? files::ascii_text(json_of(sweep)) + "\n" : lr_sweep_table(sweep, standard_output()));
  std::fflush(stdout);
  if (!out.empty() && !stopped) {
    const Drawn drawn = try_draw("the sweep was not drawn", [&] { return draw_document(sweep, out, lr_sweep_file); });
    if (!flags.json) fmt::print("{}", drawn.said);
    if (drawn.exit_status != 0) fmt::print(stderr, "draw it with: ladder report {}\n", printable(flags.out));
  }
  return stopped ? 130 : sweep.best ? 0 : 1;
}

}  // namespace cli
