// `ladder train`: begins or resumes a training.
#include "ablations/gpt2/gpt2_workload.h"
#include "ablations/gpt2/reproduce.h"
#include "ablations/techniques/operations.h"
#include "ablations/training/checkpoints.h"
#include "ablations/training/training_loop.h"
#include "cli/gpt2/commands.h"
#include "cli/gpt2/request.h"
#include "cli/gpt2/tokenize.h"
#include "cli/gpt2/training_request.h"
#include "cli/place.h"
#include "files/json_file.h"
#include "files/printable.h"
#include "files/resources.h"
#include "harness/process/locks.h"
#include "harness/process/process.h"
#include "model/checkpoint.h"
#include "model/data.h"
#include "model/data_parallel.h"
#include "model/ranks.h"
#include "model/trainer.h"
#include "study/training/training_log.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace cli {

namespace fs = std::filesystem;
using files::Json;
using files::printable;

namespace {

struct TrainFlags : TrainingFlags {
  std::string save;
  std::optional<int64_t> log_every;
};

// The folder of a running training, if it has one. Of several ranks only the first one writes.
struct TrainingFolder {
  fs::path folder;
  bool writes = true;
  std::optional<harness::FolderLock> lock;
  std::optional<Checkpoints> checkpoints;
  std::optional<Checkpoint> from;  // where the training resumes
  std::optional<TrainingLog> log;

  [[nodiscard]] int64_t first_step() const { return from ? from->step : 0; }
  [[nodiscard]] fs::path latest() const { return checkpoints->place_of(*checkpoints->latest()); }
  [[nodiscard]] std::string last_checkpoint_text() const {
    if (!writes) return fmt::format("--resume continues from the last checkpoint in {}", folder.string());
    if (!checkpoints || !checkpoints->latest()) return "no checkpoint was saved before";
    return fmt::format("the last good checkpoint is of step {}: {}", checkpoints->latest()->step, latest().string());
  }
};

// A new training. open_training_folder() makes its folder later, when nothing can be refused any more.
PreparedTraining new_training(const TrainFlags& flags, const TrainingFolder& kept) {
  if (!kept.folder.empty() && kept.writes) {
    check_can_make(kept.folder);
    check_may_begin_training(kept.folder);
  }
  PreparedTraining prepared = prepared_training(flags);
  prepare_process(prepared.options);
  prepared.training.environment = environment_here();
  return prepared;
}

PreparedTraining resumed_training(const TrainFlags& flags, TrainingFolder& kept) {
  const Training training = open_training(kept.folder);
  if (kept.writes) kept.lock.emplace(kept.folder);
  kept.checkpoints.emplace(kept.folder, training.keep,
                           kept.writes ? Checkpoints::Access::writes : Checkpoints::Access::reads);
  kept.from = latest_checkpoint(*kept.checkpoints, training);
  PreparedTraining again = prepared_again(flags, training);
  prepare_process(again.options);
  const int64_t position = again.position_after(kept.first_step());
  if (kept.from && position != kept.from->position) {
    throw std::invalid_argument(fmt::format("{}: its next batch begins at token {} of the text, this program's at {}",
                                            kept.latest().string(), kept.from->position, position));
  }
  return again;
}

// Reads the earlier steps, or makes the folder.
std::vector<TrainingStep> open_training_folder(const TrainFlags& flags, const Training& training,
                                               TrainingFolder& kept) {
  if (kept.folder.empty() || !kept.writes) return {};
  std::vector<TrainingStep> before;
  if (flags.resume) {
    before = logged_steps(kept.folder, kept.first_step());
  } else {
    fs::create_directories(kept.folder);
    kept.lock.emplace(kept.folder);
    create_training(training, kept.folder);
    kept.checkpoints.emplace(kept.folder, training.keep);
  }
  return before;
}

// Completes what an interrupt has left out after the last step. Returns what is not finite.
std::string complete(model::Trainer& trainer, const PreparedTraining& prepared, const TrainingHooks& hooks,
                     TrainingFolder& kept, std::vector<TrainingStep>& before) {
  if (!kept.from) return "";
  const bool is_logged = !before.empty() && before.back().step == kept.from->step;
  TrainingStep nobodys{.step = kept.from->step, .sample = ""};
  const bool was_validated = kept.from->validation_loss.has_value();
  std::string failure = complete_last_step(trainer, prepared.training, prepared.data, hooks, *kept.from,
                                           is_logged ? before.back() : nobodys);
  if (kept.writes && !was_validated && kept.from->validation_loss) kept.checkpoints->complete(*kept.from);
  return failure;
}

void check_save_is_no_input(const TrainFlags& flags) {
  check_not_read("--save", flags.save, inputs_of(StepFlags{.workload = flags.workload, .recipe = flags.recipe}));
  check_not_read("--save", flags.save, {{"--weights", flags.weights}, {"--validation-data", flags.validation_data}});
}

void print_training_begin(const PreparedTraining& prepared, int64_t first_step, bool keeps_nothing) {
  const TrainingSettings& settings = prepared.training.settings;
  const auto tokens = static_cast<double>(settings.tokens_per_step());
  const double all = tokens * static_cast<double>(settings.steps);
  const double of_epoch = 100 * all / static_cast<double>(prepared.data.training.tokens.size());
  fmt::print(stderr, "recipe: {}\n", printable(prepared.training.recipe_from));
  fmt::print(stderr, "{}, {} parameters: {} x {} tokens{} = {} tokens ({} % of an epoch)\n", settings.model,
             abbreviated(static_cast<double>(prepared.training.parameters)), number_of(settings.steps, "step"),
             plain(tokens),
             settings.accumulation == 1
                 ? ""
                 : fmt::format(" ({} micro-steps of {} x {})", settings.accumulation, settings.sequences(), settings.T),
             plain(all), plain(of_epoch));
  if (settings.ranks) {
    fmt::print(stderr, "{}: each works on {} of {} sequences at a time\n", number_of(*settings.ranks, "rank"),
               settings.B, settings.sequences());
  }
  if (first_step == settings.steps) {
    fmt::print(stderr, "all {} are done already\n", number_of(settings.steps, "step"));
  } else if (first_step > 0) {
    fmt::print(stderr, "resumes after step {}\n", first_step);
  }
  if (keeps_nothing) fmt::print(stderr, "nothing is kept of this training; --out FOLDER keeps it\n");
}

void note_other_program(const Training& training) {
  const std::vector<std::string> different = compare_programs(training.environment, environment_here(),
                                                              device_of(training.settings.recipe) == DeviceKind::cuda)
                                                 .differences;
  if (different.empty()) return;
  fmt::print(stderr,
             "note: this is not the program that began the training, so losses may differ in their last "
             "digits: {}\n",
             printable(fmt::format("{}", fmt::join(different, "; "))));
}

// --save: only what is finite.
void save_last_weights(model::Trainer& trainer, const std::string& file) {
  const std::string weight = weight_not_finite(trainer.model());
  if (!weight.empty()) {
    throw std::runtime_error(
        fmt::format("--save {}: not written, because the weights {} are not finite", file, weight));
  }
  model::save_weights(trainer.model(), file);
  fmt::print(stderr, "weights: {}\n", printable(file));
}

// Writes the samples of a training.
class Writer {
 public:
  // Throws as prompt.h does.
  Writer(const TrainingSamples& samples, const TrainingSettings& settings, const fs::path& vocabulary,
         model::Marks marks)
      : tokenizer_(vocabulary_for_text(vocabulary)),
        prompt_(encoded_prompt("--sample-prompt", samples.prompt, tokenizer_, settings.positions, marks)),
        options_{
            .tokens = samples.tokens, .sampling = {.temperature = temperature, .top_k = top_k}, .seed = settings.seed} {
  }

  [[nodiscard]] std::string text_by(const model::Trainer& trainer) const {
    return files::valid_utf8(tokenizer_.decode(trainer.sample(prompt_, options_)));
  }

 private:
  // nanoGPT's (Karpathy), sample.py.
  static constexpr double temperature = 0.8;
  static constexpr int64_t top_k = 200;

  model::Tokenizer tokenizer_;
  std::vector<uint16_t> prompt_;
  model::SampleOptions options_;
};

// What all ranks must have in common: the training, and the steps after which the loop does more.
std::vector<std::string> work_of_ranks(const Training& training) {
  const Json document = json_of(training);
  std::vector<std::string> work;
  for (const char* part : {"settings", "save_every", "samples"}) {
    if (!document.contains(part)) continue;
    const Json flat = Json{{part, document[part]}}.flatten();  // must outlive its items
    for (const auto& [name, value] : flat.items()) {
      work.push_back(fmt::format("{} {}", name.substr(1), value.dump()));
    }
  }
  return work;
}

// What is done with each step's figures.
class Reporter {
 public:
  Reporter(const TrainFlags& flags, int64_t steps, int64_t log_every)
      : json_(flags.json), steps_(steps), log_every_(log_every) {}

  void show(const TrainingStep& step, double seconds_left) {
    losses_.push_back(step.loss ? Json(*step.loss) : Json());
    const bool is_shown =
        step.step % log_every_ == 0 || step.step == steps_ || step.validation_loss || step.spike || step.sample;
    if (json_ || !is_shown) return;
    std::string text = step_line(step, steps_, seconds_left) + "\n";
    if (step.sample) {
      for (const auto line : std::views::split(files::printable_lines(*step.sample), '\n')) {
        text += fmt::format("    | {}\n", std::string_view(line.begin(), line.end()));
      }
    }
    print(text);
  }
  void end() const {
    if (json_) print(Json{{"losses", losses_}}.dump() + "\n");
  }

 private:
  // Unlike fmt::print it throws nothing: the training must be saved where nobody reads any more.
  static void print(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  bool json_;
  int64_t steps_, log_every_;
  Json losses_ = Json::array();
};

// Throws if --save names a file in the training's folder.
void check_save_is_outside(const fs::path& folder, const fs::path& save) {
  if (folder.empty()) return;
  const fs::path within = fs::weakly_canonical(save).lexically_relative(fs::weakly_canonical(folder));
  if (within.empty() || *within.begin() == "..") return;
  throw std::invalid_argument(fmt::format(
      "--save {}: must lie outside --out, where each checkpoint has the weights as model.safetensors", save.string()));
}

int status_of(const TrainingEnd& end) {
  using Why = TrainingEnd::Why;
  return end.why == Why::finished ? 0 : end.why == Why::interrupted ? 130 : 1;
}

// A launcher kills all ranks when one has ended badly. So each rank waits for the others at the end of this scope.
// Until then rank 0 can save.
class WaitForRanks {
 public:
  explicit WaitForRanks(model::Trainer& trainer) : trainer_(trainer) {}
  WaitForRanks(const WaitForRanks&) = delete;
  WaitForRanks& operator=(const WaitForRanks&) = delete;
  ~WaitForRanks() {
    try {
      trainer_.wait_for_ranks();
    } catch (const std::exception&) {  // nobody is needed any more
    }
  }

 private:
  model::Trainer& trainer_;
};

// Throws std::runtime_error for a training that is not finite.
void print_training_end(const TrainFlags& flags, const Training& training, const TrainingEnd& end,
                        const TrainingFolder& kept) {
  if (end.why == TrainingEnd::Why::not_finite) {
    const std::string left = flags.out.empty() ? "" : "; " + kept.last_checkpoint_text();
    const std::string unsaved = flags.save.empty() ? "" : fmt::format("; {} is not written", flags.save);
    throw std::runtime_error(fmt::format(
        "{} is not finite: training stops{}{}; try a smaller --lr, more --warmup-steps, or a smaller --clip", end.what,
        left, unsaved));
  }
  if (end.why == TrainingEnd::Why::interrupted) {
    fmt::print(stderr, "interrupted after step {} of {}\n", end.step, training.settings.steps);
  }
  if (flags.out.empty() || flags.json || !kept.checkpoints->latest()) return;
  const auto best = kept.checkpoints->best();
  fmt::print(stderr, "checkpoints: {}\n", printable(kept.latest().string()));
  if (best) {
    fmt::print(stderr, "best: {}, step {}, validation loss {:.4f}\n",
               printable(kept.checkpoints->place_of(*best).string()), best->step, *best->validation_loss);
  }
  if (end.why == TrainingEnd::Why::interrupted) {
    fmt::print(stderr, "resume with: ladder train --resume --out {}\n", printable(flags.out));
  } else {
    fmt::print(stderr, "next: ladder report {0}, or ladder sample --weights {0}\n", printable(flags.out));
  }
}

int train(const TrainFlags& flags) {
  const model::Ranks ranks = model::ranks_of_environment();
  TrainingFolder kept{.folder = files::named_folder(flags.out), .writes = ranks.is_first()};
  if (!flags.save.empty() && kept.writes) {
    check_save_is_outside(kept.folder, flags.save);
    check_can_write("--save", flags.save);
    check_save_is_no_input(flags);
  }
  const PreparedTraining prepared = flags.resume ? resumed_training(flags, kept) : new_training(flags, kept);
  const Training& training = prepared.training;
  const TrainingSettings& settings = training.settings;
  if (!flags.save.empty()) check_not_read("--save", flags.save, inputs_of(training.files));
  const std::optional<Writer> writer =
      training.samples
          ? std::make_optional<Writer>(*training.samples, settings, prepared.options.vocabulary, prepared.options.marks)
          : std::nullopt;
  model::TrainerOptions options = trainer_options(settings, kept.first_step(), ranks);
  options.work = work_of_ranks(training);
  model::Trainer trainer(config_of(prepared.options), prepared.options.recipe, options, prepared.data.training,
                         model::step_parts());
  if (kept.from) {
    load_checkpoint(trainer, kept.latest());
  } else {
    if (flags.resume) check_first_weights(training);
    load_first_weights(trainer, training);
  }
  std::vector<TrainingStep> before = open_training_folder(flags, training, kept);

  TrainingHooks hooks;
  if (writer) hooks.sample = [&] { return writer->text_by(trainer); };
  hooks.log_every = flags.log_every.value_or(device_of(settings.recipe) == DeviceKind::cuda ? 10 : 1);
  for (const TrainingStep& step : before) {
    if (step.loss) hooks.losses_before.push_back(*step.loss);
  }
  Reporter reporter(flags, settings.steps, hooks.log_every);
  hooks.on_step = [&](const TrainingStep& step, double seconds_left) {
    if (!kept.writes) return;
    reporter.show(step, seconds_left);
    if (kept.log) kept.log->add(step);
  };
  if (!kept.folder.empty() && training.save_every > 0) {
    hooks.save = [&](const TrainingStep& step) {
      if (!kept.writes) return;
      kept.log->sync();  // no checkpoint without the log of its steps
      kept.checkpoints->save(trainer, {.step = step.step,
                                       .position = prepared.position_after(step.step),
                                       .loss = step.loss,
                                       .validation_loss = step.validation_loss,
                                       .training = training});
    };
  }
  hooks.interrupted = harness::interrupted;
  if (kept.writes) std::ranges::for_each(prepared.notes, say_note);
  if (!flags.json && kept.writes)
    print_training_begin(prepared, kept.first_step(), flags.out.empty() && flags.save.empty());
  if (flags.resume && kept.writes) note_other_program(training);
  // A step that has begun is finished, and what was learned is saved.
  harness::catch_interrupts();
  harness::catch_lost_readers();
  TrainingEnd end{.why = TrainingEnd::Why::not_finite,
                  .step = kept.first_step(),
                  .what = complete(trainer, prepared, hooks, kept, before)};
  if (kept.lock) kept.log.emplace(kept.folder, before);
  try {
    if (end.what.empty()) end = carry_on(trainer, training, prepared.data, hooks);
  } catch (const std::system_error& error) {  // a full disk
    throw std::runtime_error(fmt::format("{}: training stops; {}", error.what(), kept.last_checkpoint_text()));
  } catch (const model::LostRank& error) {
    const std::string left = flags.out.empty() ? "" : "; " + kept.last_checkpoint_text();
    throw std::runtime_error(fmt::format("{}: training stops{}", error.what(), left));
  }
  const WaitForRanks waits(trainer);
  if (!kept.writes) return status_of(end);
  harness::drop_lost_readers();
  reporter.end();
  print_training_end(flags, training, end, kept);
  if (!flags.save.empty()) save_last_weights(trainer, flags.save);
  return status_of(end);
}

const Words train_words{
    .name = "train",
    .about =
        "Trains with the trainer that the ladders measure. The last part of the text is not trained on: its loss is "
        "the validation loss. Without --recipe it takes the fastest rung that this machine has shown for the model "
        "in the folder studies; else this machine's ladder with all of its rungs but those in fp8.\n"
        "With --out it leaves a folder: the settings (training.json), a line for each step (log.jsonl, and the same "
        "as metrics.csv), and checkpoints, which are there whole or not at all. The last ones stay, and the one "
        "with the lowest validation loss; the links latest and best lead to them. Hugging Face's "
        "GPT2LMHeadModel.from_pretrained() reads a checkpoint as it is.\n"
        "After Ctrl-C, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU or SIGPWR the step is finished and saved, and the "
        "exit status is "
        "130; so it is once nobody reads the output. --resume continues from the last checkpoint; on a CPU with "
        "--threads 1 the losses are the same to the bit as without a stop. A loss that is not "
        "finite ends the training with exit status 1, and nothing is saved of it. `ladder report` draws a "
        "training.",
    .examples = {{"ladder train --model tiny -T 64 --steps 200 --out training",
                  "Two hundred steps of the two-layer model."},
                 {"ladder train --resume --out training", "Goes on from the last checkpoint."},
                 {"ladder train -T 256 --batch-tokens 524288 --epochs 1 --data book.txt --out run",
                  "GPT-2's batch of half a million tokens, in many micro-steps."},
                 {"ladder train --model tiny -T 64 --steps 20 --save weights.safetensors",
                  "Only the weights at the end."},
                 {"ladder train --weights weights.safetensors -T 64 --steps 20",
                  "Starts from those weights; optimizer, schedule and text start from the beginning."}},
    .common = {"--steps", "--epochs", "--data", "--model", "--batch", "--context", "--lr", "--recipe", "--weights",
               "--out", "--resume", "--save"}};

}  // namespace

void add_train(CommandLine& line) {
  Command& command = line.add(train_words);
  auto& flags = command.runs<TrainFlags>(train);
  add_workload_flags(command, flags.workload, "gpt2-124m", "1 x 256 tokens");
  for (const char* flag : {"--steps", "--warmup"}) command.remove_option(command.get_option(flag));  // of timed runs
  add_number(command, "--batch-tokens", flags.batch_tokens,
             "tokens of a step, in place of --accumulation: as many micro-steps as it takes", 1, int64_t{1} << 36);
  command.exclude("--batch-tokens", {"--accumulation"});
  add_deterministic_flag(command, flags.workload);
  add_end_of_text_flag(command, flags.workload.end_of_text);
  command.heading("How long to train (one of these)");
  add_number(command, "--steps", flags.workload.steps, "updates of the weights", 1, most_training_steps);
  add_length_flags(command, flags);
  command.heading("How to train");
  add_text(command, "--recipe", flags.recipe, "JSON file, or JSON: '{\"autocast\": \"bf16\"}' (default: see above)",
           "FILE|JSON");
  add_rung_flag(command, flags.rung);
  add_choice(command, "--ladder", flags.ladder, ladder_names(), ", or a file: of --rung (default: this machine's)",
             "NAME|FILE");
  add_text(command, "--weights", flags.weights,
           "start from these weights (safetensors, GPT-2's names), those in a folder, or a training's best", "PATH");
  add_learning_flags(command, flags);
  command.heading("Validation");
  add_validation_flags(command, flags);
  command.heading("Samples while it trains");
  CLI::Option* const samples =
      add_number(command, "--sample-every", flags.sample_every,
                 "steps between two texts that the model writes; it also writes one after the first and the last step "
                 "(default: it writes none)",
                 1, most_training_steps);
  command.add_option("--sample-prompt", flags.sample_prompt, "UTF-8 text that it continues (default: nothing)")
      ->type_name("TEXT")
      ->needs(samples);
  add_number(command, "--sample-tokens", flags.sample_tokens, "the most tokens of a text (default 100)", 1, 100000)
      ->needs(samples);
  command.heading("Where the results go");
  CLI::Option* const out =
      add_output(command, "--out", flags.out, "folder of the training: log and checkpoints", "FOLDER");
  add_number(command, "--save-every", flags.save_every, "steps between two checkpoints (default: a tenth of all)", 1,
             most_training_steps)
      ->needs(out);
  add_number(command, "--keep", flags.keep,
             "how many of the last checkpoints stay (default 2); the best one stays besides", 1, most_training_steps)
      ->needs(out);
  command.add_flag("--resume", flags.resume, "resume the training in --out, from its last checkpoint");
  add_number(command, "--log-every", flags.log_every,
             "steps between two lines (default: 1, on a GPU 10); log.jsonl has every step", 1, most_training_steps);
  add_output(command, "--save", flags.save, "also write the weights here, at the end or when interrupted", "FILE");
  command.add_flag("--json", flags.json, "print only the losses, as JSON");
  command.exclude("--recipe", {"--rung"});
  command.get_option("--ladder")->needs("--rung");
  command.callback([&command] {
    check_resume(command, {"--data", "--vocab", "--validation-data", "--log-every", "--save", "--json"}, "training");
  });
}

}  // namespace cli
