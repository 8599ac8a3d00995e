// `ladder ablate --to-loss`: trains each rung with each seed, a process for each training, and what they show.
#include "ablations/gpt2/child.h"
#include "ablations/gpt2/ladder_file.h"
#include "ablations/gpt2/memory.h"
#include "ablations/plan/make_plan.h"
#include "ablations/run/run_setting.h"
#include "ablations/run/study_folder.h"
#include "cli/draw.h"
#include "cli/gpt2/request.h"
#include "cli/gpt2/training_request.h"
#include "cli/place.h"
#include "files/files.h"
#include "files/printable.h"
#include "harness/machine/machine.h"
#include "harness/process/locks.h"
#include "harness/process/process.h"
#include "harness/process/unfit.h"
#include "harness/process/utc.h"
#include "model/config.h"
#include "plots/to_loss_text.h"
#include "plots/training_summary.h"
#include "study/training/quality.h"
#include "study/training/training_log.h"
#include "text/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

namespace cli {

namespace fs = std::filesystem;
using files::printable;

namespace {

// The rungs that the flags name, or all of the ladder's.
std::vector<Rung> rungs_to_train(const ToLossFlags& flags, const Ladder& ladder) {
  std::vector<Rung> rungs = climb(ladder, harness::this_machine());
  if (!flags.rungs.empty()) {
    std::vector<Rung> chosen;
    for (const std::string& name : flags.rungs) {
      chosen.push_back(rungs[find_rung(rungs, name, "--rung", ladder.name)]);
      chosen.back().status = Rung::Status::planned;
      chosen.back().reason.clear();
    }
    rungs = std::move(chosen);
  }
  for (Rung& rung : rungs) {
    const std::string obstacle = recipe_of(rung).data_parallel == model::Parallel::ddp
                                     ? "--to-loss trains in one process"
                                     : training_obstacle(recipe_of(rung));
    if (rung.status != Rung::Status::planned || obstacle.empty()) continue;
    rung.status = Rung::Status::not_applicable;
    rung.reason = obstacle;
  }
  const Rung& first = rungs[reference_rung(rungs)];
  if (first.status != Rung::Status::planned) {
    throw harness::Unfit(
        fmt::format("ladder {}: no rung can be trained on this machine: {}", ladder.name, first.reason));
  }
  return rungs;
}

// The ladder's sizes where no flag says another.
WorkloadFlags sized_as(const LadderWorkload& workload, WorkloadFlags flags) {
  if (!flags.T) {
    const std::string& name = flags.model.empty() ? workload.model : flags.model;
    flags.T = std::min(workload.T, model::with_positions(model::preset(name), flags.positions.value_or(0)).n_positions);
  }
  if (flags.model.empty()) flags.model = workload.model;
  flags.B = flags.B.value_or(workload.B);
  flags.accumulation = flags.accumulation.value_or(workload.accumulation);
  return flags;
}

std::string where_from(const NamedLadder& ladder, const Rung& rung) {
  return fmt::format("ladder {} up to \"{}\"", ladder.name, rung.title);
}

// The training of a rung with a seed.
Training training_for(const TimeToLoss& study, const Rung& rung, uint64_t seed) {
  Training training = study.training;
  training.created = harness::utc_now();
  training.settings.recipe = rung.recipe;
  training.settings.seed = seed;
  training.recipe_from = where_from(study.ladder, rung);
  return training;
}

void check_validations(const TrainingSettings& settings) {
  constexpr int64_t most_validations = 10000;  // as the schema has it
  if (settings.validation_every == 0) {
    throw std::invalid_argument("--validation-share must be above 0 with --to-loss, which is a validation loss, got 0");
  }
  if (settings.steps / settings.validation_every < most_validations) return;
  throw std::invalid_argument(fmt::format("--validation-every must be at least {} with {} steps, got {}",
                                          settings.steps / most_validations + 1, settings.steps,
                                          settings.validation_every));
}

TimeToLoss planned_study(const ToLossFlags& flags) {
  Ladder ladder = load_ladder(chosen_ladder(flags.ladder));
  if (flags.training.workload.deterministic) ladder.start["deterministic"] = true;
  TimeToLoss study;
  study.ladder = {.name = ladder.name, .title = ladder.title, .file = ladder.file};
  study.loss = *flags.loss;
  study.margin = flags.margin;
  study.seeds = flags.seeds;
  for (const Rung& rung : rungs_to_train(flags, ladder)) static_cast<Rung&>(study.rungs.emplace_back()) = rung;
  study = with_verdicts(std::move(study));
  const Rung& reference = study.rungs[study.reference];

  TrainingFlags of_reference = flags.training;
  of_reference.workload = sized_as(ladder.workload, of_reference.workload);
  of_reference.recipe = reference.recipe.dump();
  of_reference.validations = 20;
  study.training = prepared_training(of_reference).training;
  check_validations(study.training.settings);
  study.training.recipe_from = where_from(study.ladder, reference);
  study.training.save_every = 0;
  study.training.environment = environment_here();
  study.training.environment.threads = study.training.settings.threads;
  study.device = trained_on(study.training);
  return with_said(std::move(study));
}

std::set<model::Device> devices_trained_on(const TimeToLoss& study) {
  std::set<model::Device> devices;
  for (const RungToLoss& rung : study.rungs) {
    if (rung.status == Rung::Status::planned) devices.insert(recipe_of(rung).device);
  }
  return devices;
}

// Reads the stored study. Throws harness::Unfit on another machine or for another program, because seconds would not
// compare.
TimeToLoss stored_study(const fs::path& out) {
  auto study = read_document<TimeToLoss>(out / to_loss_file);
  Environment here = environment_here();
  here.threads = study.training.settings.threads;
  const bool cuda = devices_trained_on(study).contains(model::Device::cuda);
  const std::vector<std::string> lines =
      differences(study_facts(study.training.environment, {}, cuda), study_facts(here, {}, cuda));
  if (!lines.empty()) {
    throw harness::Unfit(
        fmt::format("{}: its trainings were made under other circumstances: {}; resume there, or begin a new study",
                    out.string(), fmt::join(lines, "; ")));
  }
  std::erase_if(study.trainings, [](const SeedTraining& one) { return !one.failure.empty(); });
  return study;
}

// The trainings that the study lacks, seed by seed. A seed's rungs are in the order of a plan's repeat.
std::vector<PlannedRun> trainings_to_make(const TimeToLoss& study) {
  const std::vector<Rung> rungs(study.rungs.begin(), study.rungs.end());
  const uint64_t first = study.training.settings.seed;
  std::vector<PlannedRun> runs = interleave(rungs, study.seeds, first);
  std::erase_if(runs, [&](const PlannedRun& run) {
    return std::ranges::any_of(study.trainings, [&](const SeedTraining& made) {
      return made.rung == run.rung && made.seed == first + static_cast<uint64_t>(run.repeat);
    });
  });
  return runs;
}

// What was not finite in the last step. Empty if all was finite.
std::string not_finite_in(const std::vector<TrainingStep>& steps, const TrainingSettings& settings) {
  if (steps.empty()) return "";
  const TrainingStep& last = steps.back();
  const std::string fault = fault_of(last, settings);
  if (!fault.empty()) return fault;
  const bool is_validated = last.step == settings.steps || last.step % settings.validation_every == 0;
  return is_validated && !last.validation_loss ? fmt::format("the validation loss after step {}", last.step) : "";
}

SeedTraining result_of(const harness::ChildResult& child, const Training& training, const fs::path& folder,
                       const fs::path& log) {
  SeedTraining result{.seed = training.settings.seed};
  const std::vector<TrainingStep> steps = logged_steps(folder);
  for (const TrainingStep& step : steps) {
    result.seconds += step.ms / 1e3;
    if (!step.validation_loss) continue;
    result.curve.push_back(
        {.step = step.step, .tokens = step.tokens, .seconds = result.seconds, .loss = *step.validation_loss});
  }
  if (child.succeeded()) return result;
  if (child.end == harness::ChildResult::End::exited) result.not_finite = not_finite_in(steps, training.settings);
  if (result.not_finite.empty()) result.failure = fmt::format("{}: {}", child.describe(0), last_line(log));
  return result;
}

// Trains in a child process, because a recipe's memory policy stays with a process. None if it was interrupted.
std::optional<SeedTraining> trained_by_child(const TimeToLoss& study, const PlannedRun& run, const fs::path& out) {
  const uint64_t seed = study.training.settings.seed + static_cast<uint64_t>(run.repeat);
  const Training training = training_for(study, study.rungs[run.rung], seed);
  const std::string name = fmt::format("seed-{}-rung-{:02}", seed, run.rung);
  const fs::path log = files::make_folder_in(out, "logs") / (name + ".log");
  const fs::path folder = files::make_folder_in(out, "trainings") / name;
  if (fs::exists(fs::symlink_status(folder))) files::remove_folder(folder);  // of one that was interrupted
  fs::create_directory(folder);
  create_training(training, folder);
  const harness::ChildResult child =
      harness::run_child({.argv = {fmt::format("/proc/{}/exe", ::getpid()), "train", "--resume", "--out",
                                   folder.string(), "--end-with-parent"},
                          .log = log,
                          .limit_s = std::numeric_limits<double>::infinity()});
  if (child.end == harness::ChildResult::End::interrupted) return std::nullopt;
  SeedTraining result = result_of(child, training, folder, log);
  result.rung = run.rung;
  return result;
}

// Writes to_loss.json. Throws std::runtime_error if the disk is full.
void write_study(const TimeToLoss& study, const fs::path& out) {
  try {
    write_document(out / to_loss_file, study);
  } catch (const std::system_error& error) {
    throw std::runtime_error(fmt::format("{}: the study stops after {} of {} trainings", error.what(),
                                         study.trainings.size(), study.planned()));
  }
}

void print_trainings_begin(const TimeToLoss& study, const fs::path& out) {
  const TrainingSettings& settings = study.training.settings;
  fmt::print(stderr, "{}, {} parameters: {} into {}, each {} of {} tokens, a validation every {}\n", settings.model,
             abbreviated(static_cast<double>(study.training.parameters)), number_of(study.planned(), "training"),
             printable(out.string()), number_of(settings.steps, "step"), settings.tokens_per_step(),
             number_of(settings.validation_every, "step"));
  for (const RungToLoss& rung : study.rungs) {
    if (rung.status == Rung::Status::planned) continue;
    fmt::print(stderr, "skipped: {}: {}\n", printable(rung.title), printable(rung.reason));
  }
}

// Prints the result of the last training.
void print_last_training(const TimeToLoss& study) {
  const SeedTraining& made = study.trainings.back();
  const std::string end = !made.failure.empty()      ? "failed: " + made.failure
                          : !made.not_finite.empty() ? made.not_finite + " is not finite"
                          : made.curve.empty()       ? "no validation loss"
                                                     : fmt::format("ends at {:.4f}", made.curve.back().loss);
  const std::string reached = made.reached ? fmt::format("{:g} after {} s", study.loss, digits3(made.reached->seconds))
                                           : fmt::format("{:g} was not reached", study.loss);
  fmt::print(stderr, "training {}/{}: seed {}, {}: {}, {}\n", study.trainings.size(), study.planned(), made.seed,
             printable(study.rungs[made.rung].title), printable(end), reached);
}

bool all_ended_well(const TimeToLoss& study) {
  return std::ranges::all_of(study.trainings, [](const SeedTraining& training) { return training.has_ended(); });
}

}  // namespace

void add_to_loss_flags(Command& command, ToLossFlags& flags) {
  command.heading("Time to a loss");
  CLI::Option* const to_loss = add_real(
      command, "--to-loss", flags.loss,
      "train each rung for --steps, --tokens or --epochs: seconds to this validation loss, and quality at the end",
      "a number above 0", above_zero);
  add_number(command, "--seeds", flags.seeds, "trainings of each rung, with seeds from --seed on (default 3)", 1, 100);
  add_real(command, "--margin", flags.margin,
           "nats by which a rung's loss at the end may be higher and still count as the same quality (default 0.02)",
           "a number above 0", above_zero);
  add_length_flags(command, flags.training);
  add_learning_flags(command, flags.training);
  add_validation_flags(command, flags.training, "a twentieth of all");
  for (CLI::Option* const option :
       command.get_options([&](CLI::Option* other) { return other->get_group() == to_loss->get_group(); })) {
    if (option != to_loss) option->needs(to_loss);
  }
}

int to_loss(const ToLossFlags& flags) {
  const fs::path out = files::named_folder(flags.training.out);
  const bool resumes = flags.training.resume, json = flags.training.json;
  if (!resumes) {
    check_can_make(out);
    check_holds_nothing(out, to_loss_file, "study");
  }
  TimeToLoss study = resumes ? stored_study(out) : planned_study(flags);
  const Occupied devices = occupy(devices_trained_on(study), "ladder ablate", out, flags.wait);
  fs::create_directories(out);
  const harness::FolderLock lock(out);
  remove_unfinished_files(out, {to_loss_file});
  if (resumes) {
    study = stored_study(out);  // somebody else may have gone on with it meanwhile
  } else {
    check_holds_nothing(out, to_loss_file, "study");
    write_study(study, out);
  }
  if (!json) print_trainings_begin(study, out);
  harness::catch_interrupts();
  for (const PlannedRun& run : trainings_to_make(study)) {
    std::optional<SeedTraining> made;
    if (!harness::interrupted()) made = trained_by_child(study, run, out);
    if (!made) break;
    study.trainings.push_back(*std::move(made));
    study = with_said(with_verdicts(std::move(study)));
    write_study(study, out);
    if (!json) print_last_training(study);
  }
  const bool stopped = std::ssize(study.trainings) < study.planned();
  if (stopped) {
    fmt::print(stderr, "interrupted after {} of {} trainings; resume with: ladder ablate --resume --out {}\n",
               study.trainings.size(), study.planned(), printable(out.string()));
    return 130;
  }
  const auto drawing = [&] { return draw_document(study, out, to_loss_file); };
  const Drawn drawn = json ? Drawn{.exit_status = 0, .said = ""} : try_draw("the study was not drawn", drawing);
  fmt::print("{}", json ? files::ascii_text(json_of(study)) + "\n" : to_loss_table(study, standard_output()));
  if (!json) fmt::print("{}", drawn.said);
  std::fflush(stdout);
  if (drawn.exit_status != 0) fmt::print(stderr, "draw it with: ladder report {}\n", printable(out.string()));
  return all_ended_well(study) ? 0 : 1;
}

}  // namespace cli
