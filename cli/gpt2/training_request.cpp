#include "cli/gpt2/training_request.h"

#include "ablations/gpt2/ladder_file.h"
#include "ablations/techniques/techniques.h"
#include "ablations/training/checkpoints.h"
#include "cli/gpt2/fastest_rung.h"
#include "cli/gpt2/request.h"
#include "cli/gpt2/tokenize.h"
#include "files/files.h"
#include "files/printable.h"
#include "files/resources.h"
#include "files/sha256.h"
#include "files/what_is.h"
#include "harness/machine/machine.h"
#include "harness/process/utc.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/config_of_weights.h"
#include "model/optimizer.h"
#include "model/ranks.h"
#include "model/trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <utility>

namespace cli {

namespace fs = std::filesystem;

namespace {

int64_t divided_up(int64_t value, int64_t by) { return value / by + (value % by == 0 ? 0 : 1); }

struct ChosenRecipe {
  std::string json, from;
};

// The fastest rung in the studies below the current folder. Passes over recipes that cannot train here.
FastestShown shown_here(const WorkloadFlags& flags) {
  const harness::Machine& machine = harness::this_machine();
  Environment here = environment_here();
  here.threads = threads_for(flags.threads);  // of the training, not of this moment
  const auto fits = [&](model::Recipe recipe) {
    recipe.deterministic |= flags.deterministic;
    const bool uses_gpu = recipe.device == model::Device::cuda;
    return uses_gpu == machine.gpu.has_value() && model::kept_for(recipe.batches) != model::Keep::in_file &&
           recipe_obstacle(recipe, machine).empty();
  };
  return fastest_shown(default_studies(), flags.model.empty() ? RunOptions{}.model : flags.model, here, fits);
}

// The flag's recipe, or the fastest rung's that this machine has shown, or its ladder's last rung's.
ChosenRecipe chosen_recipe(const TrainingFlags& flags) {
  if (!flags.recipe.empty()) return {flags.recipe, "--recipe"};
  if (!flags.rung.empty()) {
    const Ladder ladder = load_ladder(chosen_ladder(flags.ladder));
    const std::vector<Rung> rungs = climb(ladder, harness::this_machine());
    const Rung& rung = rungs[find_rung(rungs, flags.rung, "--rung", ladder.name)];
    return {rung.recipe.dump(), fmt::format("ladder {} up to \"{}\"", ladder.name, rung.title)};
  }
  const bool is_shared = model::ranks_of_environment().size > 1;
  const auto [shown, passed_over] = is_shared ? FastestShown{} : shown_here(flags.workload);  // studies have one rank
  const std::string but = passed_over.empty() ? "" : "; not by " + files::printable(passed_over);
  if (shown) {
    return {model::to_json(shown->recipe).dump(),
            fmt::format("rung \"{}\" of {}, the fastest of ladder {} as measured here on {} (--recipe chooses "
                        "another){}",
                        shown->title, files::printable(shown->study.string()), shown->ladder,
                        shown->finished.substr(0, 10), but)};
  }
  Ladder ladder = load_ladder(chosen_ladder(""));
  if (flags.workload.deterministic) ladder.start["deterministic"] = true;
  if (is_shared) ladder.start["data_parallel"] = "ddp";
  const std::vector<Rung> rungs = climb(ladder, harness::this_machine());
  const Rung& rung = rungs[default_rung(ladder, rungs)];
  return {
      rung.recipe.dump(),
      fmt::format("ladder {} up to \"{}\", its last rung that this machine can have{} (--recipe "
                  "chooses another){}",
                  ladder.name, rung.title, ladder.shown.empty() ? "" : " of those that have trained on a GPU", but)};
}

// A run of the same work: run_options() checks model, sizes, recipe and device.
RunOptions run_like(const WorkloadFlags& workload, const std::string& recipe) {
  StepFlags step{.workload = workload, .recipe = recipe};
  step.workload.steps.reset();  // may be more than a run can have
  RunOptions options = run_options(step);
  options.marks = marks_of(workload.end_of_text);
  const std::string obstacle = training_obstacle(options.recipe);
  if (!obstacle.empty()) throw std::invalid_argument("recipe: " + obstacle);
  return options;
}

WorkloadFlags workload_again(const TrainingFlags& flags, const Training& training) {
  const TrainingSettings& settings = training.settings;
  WorkloadFlags workload;
  workload.model = settings.model;
  workload.B = settings.B;
  workload.T = settings.T;
  workload.accumulation = settings.accumulation;
  workload.positions = settings.positions;
  workload.seed = static_cast<int64_t>(settings.seed);
  workload.random_windows = settings.random_windows;
  workload.threads = settings.threads;
  workload.data = flags.workload.data.empty() ? training.files.data : flags.workload.data;
  workload.end_of_text = training.files.end_of_text;
  workload.vocabulary = flags.workload.vocabulary.empty() ? training.files.vocabulary : flags.workload.vocabulary;
  return workload;
}

model::TokenStream tokens_for_validation(const RunOptions& options, const fs::path& file) {
  return model::tokens_of(file, options.vocabulary, files::cache_folder() / "tokens", config_of(options).vocabulary,
                          model::Keep::in_memory, options.marks);
}

Workload::Data data_of(const model::TokenStream& tokens) {
  return {.source = fs::path(tokens.source).filename().string(),
          .sha256 = tokens.sha256,
          .tokens = std::ssize(tokens.tokens)};
}

// --batch-tokens in micro-steps.
int64_t accumulation_of(const TrainingFlags& flags, const RunOptions& options, int64_t sequences) {
  if (!flags.batch_tokens) return options.accumulation;
  const int64_t all = *flags.batch_tokens, micro_step = sequences * options.T, rest = all % micro_step;
  constexpr int64_t most_micro_steps = 65536;
  if (all / micro_step > most_micro_steps) {
    throw std::invalid_argument(fmt::format("--batch-tokens must be at most {} with {} x {} tokens at a time, got {}",
                                            most_micro_steps * micro_step, sequences, options.T, all));
  }
  if (rest == 0) return all / micro_step;
  const int64_t below = all - rest, above = below + micro_step;
  throw std::invalid_argument(fmt::format(
      "--batch-tokens must be a multiple of batch x context, {} x {} = {}, got {}; {} would do", sequences, options.T,
      micro_step, all, below == 0 ? std::to_string(above) : fmt::format("{} or {}", below, above)));
}

// The number of steps, from --steps, --tokens or --epochs. An epoch has `windows` of B x T tokens.
int64_t steps_of(const TrainingFlags& flags, const TrainingSettings& settings, int64_t windows) {
  const int64_t given = std::ranges::count_if(std::array{flags.workload.steps, flags.tokens, flags.epochs},
                                              [](const auto& value) { return value.has_value(); });
  if (given != 1) {
    throw std::invalid_argument(fmt::format("one of --steps, --tokens and --epochs must say how long to train, got {}",
                                            given == 0 ? "none" : std::to_string(given)));
  }
  const int64_t steps = flags.tokens   ? divided_up(*flags.tokens, settings.tokens_per_step())
                        : flags.epochs ? divided_up(*flags.epochs * windows, settings.accumulation)
                                       : *flags.workload.steps;
  if (steps > most_training_steps) {
    throw std::invalid_argument(fmt::format("{} must be at most {} steps of {} tokens, got {} steps",
                                            flags.tokens ? "--tokens" : "--epochs", most_training_steps,
                                            settings.tokens_per_step(), steps));
  }
  return steps;
}

// The part of the text, or the text of its own, of the validation loss.
TrainingData data_for(const TrainingFlags& flags, const RunOptions& options, TrainingSettings& settings) {
  model::TokenStream text = tokens_of(options);
  // Checks the text before its validation part is removed.
  (void)model::BatchLoader(text, settings.sequences(), settings.T, settings.seed);
  settings.data = data_of(text);
  if (!flags.validation_data.empty()) {
    TrainingData data{std::move(text), tokens_for_validation(options, flags.validation_data)};
    settings.validation_data = data_of(data.validation);
    return data;
  }
  settings.validation_share = flags.validation_share.value_or(0.1);
  return with_validation_share(std::move(text), settings.validation_share);
}

void check_same_text(const model::TokenStream& tokens, const Workload::Data& recorded, const char* flag) {
  if (tokens.sha256 == recorded.sha256) return;
  throw std::invalid_argument(fmt::format(
      "{}: is not the text of the training: its {} tokens have SHA-256 {}, the {} of \"{}\" had {}; {} "
      "says where that text is now",
      tokens.source, tokens.tokens.size(), tokens.sha256, recorded.tokens, recorded.source, recorded.sha256, flag));
}

// What the weights to begin with are of. Flags that are not given follow it.
std::optional<model::StoredConfig> follow_weights(TrainingFlags& flags) {
  if (flags.weights.empty()) return std::nullopt;
  const fs::path file = model::weights_file(flags.weights);
  check_undamaged(file);
  const model::StoredConfig stored = model::config_of_weights(file, flags.workload.model);
  const std::vector<std::string> known = model::preset_names();
  if (std::ranges::find(known, stored.name) == known.end()) {
    throw std::invalid_argument(
        fmt::format("{}: {} layers of width {} with {} heads are none of {}, which can be trained", file.string(),
                    stored.n_layer, stored.n_embd, stored.n_head, fmt::join(known, ", ")));
  }
  flags.weights = file.string();
  flags.workload.model = stored.name;
  if (!flags.workload.positions) flags.workload.positions = stored.n_positions;
  return stored;
}

std::vector<std::string> notes_of(const Training& training, const RunOptions& options,
                                  const std::optional<model::StoredConfig>& stored) {
  std::vector<std::string> notes;
  if (stored) {
    notes.push_back(model::rows_left_out(*training.files.weights, *stored, options.recipe.vocabulary_rows));
    if (stored->dropout > 0) {
      notes.push_back(fmt::format("the config.json beside {} asks for dropout {}; this program trains without",
                                  *training.files.weights, stored->dropout));
    }
  }
  for (const std::string& text : {training.files.data, training.files.validation_data.value_or("")}) {
    if (text.empty() || files::is_token_file(text)) continue;
    notes.push_back(note_of_marks(text, model::marks_in_file(text), options.marks));
  }
  return notes;
}

}  // namespace

void add_length_flags(Command& command, TrainingFlags& flags) {
  add_number(command, "--tokens", flags.tokens, "as many steps as it takes for so many tokens", 1, INT64_MAX);
  add_number(command, "--epochs", flags.epochs, "as many steps as it takes to see the text so many times", 1,
             most_training_steps);
}

void add_learning_flags(Command& command, TrainingFlags& flags) {
  const std::string from_zero = "a number from 0 on";
  add_real(command, "--lr", flags.lr, "highest learning rate (default 0.0006)", from_zero, 0);
  add_real(command, "--min-lr", flags.min_lr, "learning rate after the decay (default: a tenth of --lr)", from_zero, 0);
  add_number(command, "--warmup-steps", flags.warmup_steps,
             "steps in which the learning rate rises (default: a twenty-fifth of --decay-steps, and 10 or more)", 0,
             most_training_steps);
  add_number(command, "--decay-steps", flags.decay_steps,
             "steps after which it has fallen to --min-lr, along half a cosine (default: all)", 1, most_training_steps);
  add_real(command, "--weight-decay", flags.weight_decay, "AdamW's, of matrices and embeddings (default 0.1)",
           from_zero, 0);
  add_real(command, "--clip", flags.clip, "norm to which gradients are clipped (default 1; 0: they are not)", from_zero,
           0);
}

void add_validation_flags(Command& command, TrainingFlags& flags) {
  add_real(command, "--validation-share", flags.validation_share,
           "the last part of the text, which is not trained on (default 0.1; 0: no validation)",
           "a number between 0 and 0.9", 0, 0.9);
  add_text(command, "--validation-data", flags.validation_data,
           "a text, or a token file, for the validation loss in place of that part", "FILE");
  command.exclude("--validation-data", {"--validation-share"});
  add_number(command, "--validation-every", flags.validation_every,
             "steps between two validation losses (default: a tenth of all); every checkpoint has one, too", 1,
             most_training_steps);
  add_number(command, "--validation-batches", flags.validation_batches,
             "batches of batch x context tokens for a validation loss (default: 20, or all that are there)", 1,
             most_training_steps);
}

int64_t PreparedTraining::position_after(int64_t steps) const {
  const TrainingSettings& settings = training.settings;
  model::BatchLoader loader(data.training, settings.sequences(), settings.T, settings.seed, model::Batches::gather, {},
                            model::Windows{settings.random_windows});
  loader.skip(steps * settings.accumulation);
  return loader.position();
}

PreparedTraining prepared_training(const TrainingFlags& given) {
  TrainingFlags flags = given;
  const std::optional<model::StoredConfig> stored = follow_weights(flags);
  const ChosenRecipe recipe = chosen_recipe(flags);
  const RunOptions options = run_like(flags.workload, recipe.json);
  if (flags.workload.end_of_text && files::is_token_file(options.data)) {
    throw std::invalid_argument(
        fmt::format("--end-of-text: needs a text, and {} is a token file", options.data.string()));
  }
  const model::Config config = config_of(options);
  Training training{.created = harness::utc_now(), .recipe_from = recipe.from};
  TrainingSettings& settings = training.settings;
  settings.model = options.model;
  settings.recipe = model::to_json(options.recipe);
  settings.B = options.B;
  settings.T = options.T;
  settings.ranks = options.ranks;
  settings.accumulation = accumulation_of(flags, options, settings.sequences());
  settings.positions = config.n_positions;
  settings.seed = options.seed;
  settings.random_windows = options.random_windows;
  settings.threads = options.threads;
  const model::AdamWOptions usual;
  settings.weight_decay = flags.weight_decay.value_or(usual.weight_decay);
  const double clip = flags.clip.value_or(usual.max_norm);
  if (clip > 0) settings.clip = clip;
  TrainingData data = data_for(flags, options, settings);
  const auto windows_of = [&](const model::TokenStream& tokens) {
    return model::BatchLoader(tokens, settings.sequences(), settings.T, settings.seed).windows();
  };
  settings.steps = steps_of(flags, settings, windows_of(data.training));
  settings.learning_rate = schedule_of(flags, settings.steps);
  if (settings.validation_data || settings.validation_share > 0) {
    settings.validation_every = flags.validation_every.value_or(divided_up(settings.steps, 10));
    settings.validation_batches =
        flags.validation_batches ? *flags.validation_batches : std::min<int64_t>(20, windows_of(data.validation));
  } else if (flags.validation_every || flags.validation_batches) {
    throw std::invalid_argument(fmt::format("{}: there is no text for validation, because --validation-share is 0",
                                            flags.validation_every ? "--validation-every" : "--validation-batches"));
  }
  check_data(data, settings);
  training.parameters = config.parameters();
  training.flops_per_step = config.flops_per_token(settings.T) * static_cast<double>(settings.tokens_per_step());
  training.files = {.data = options.data.string(),
                    .vocabulary = options.vocabulary.string(),
                    .validation_data = {},
                    .weights = {},
                    .end_of_text = flags.workload.end_of_text};
  if (!flags.validation_data.empty()) training.files.validation_data = fs::absolute(flags.validation_data).string();
  if (!flags.weights.empty()) {
    training.files.weights = fs::absolute(flags.weights).string();
    settings.weights = FirstWeights{.source = fs::path(flags.weights).filename().string(),
                                    .sha256 = files::sha256_of_file(flags.weights)};
  }
  training.save_every = flags.save_every.value_or(divided_up(settings.steps, 10));
  training.keep = flags.keep.value_or(2);
  if (flags.sample_every) {
    training.samples = {.every = *flags.sample_every, .prompt = flags.sample_prompt, .tokens = flags.sample_tokens};
  }
  std::vector<std::string> notes = notes_of(training, options, stored);
  return {std::move(training), options, std::move(data), std::move(notes)};
}

PreparedTraining prepared_again(const TrainingFlags& flags, const Training& training) {
  const TrainingSettings& settings = training.settings;
  const RunOptions options = run_like(workload_again(flags, training), settings.recipe.dump());
  if (options.ranks != settings.ranks) {
    throw std::invalid_argument(fmt::format("--resume: WORLD_SIZE must be {}, as when the training began, got {}",
                                            settings.ranks.value_or(1), options.ranks.value_or(1)));
  }
  model::TokenStream text = tokens_of(options);
  check_same_text(text, settings.data, "--data");
  TrainingData data = with_validation_share(std::move(text), settings.validation_share);
  if (settings.validation_data) {
    const std::string recorded = training.files.validation_data.value_or("");
    data.validation = tokens_for_validation(options, flags.validation_data.empty() ? recorded : flags.validation_data);
    check_same_text(data.validation, *settings.validation_data, "--validation-data");
  } else if (!flags.validation_data.empty()) {
    throw std::invalid_argument("--validation-data: this training has no text of its own for validation");
  }
  check_data(data, settings);
  return {training, options, std::move(data)};
}

std::string training_obstacle(const model::Recipe& recipe) {
  if (model::kept_for(recipe.batches) != model::Keep::in_file) return "";
  return fmt::format(
      "batches must be preloaded, gather or prefetched to train, because the text is held in memory, got {}",
      model::name_of(recipe.batches));
}

TrainingSchedule schedule_of(const TrainingFlags& flags, int64_t steps) {
  TrainingSchedule schedule;
  schedule.peak = flags.lr.value_or(schedule.peak);
  schedule.floor = flags.min_lr.value_or(schedule.peak / 10);
  schedule.decay_steps = flags.decay_steps.value_or(steps);
  // About the share that Karpathy's GPT-2 has (715 of 19,073); ten steps of a short training.
  const int64_t usual = std::min(std::max<int64_t>(10, schedule.decay_steps / 25), schedule.decay_steps);
  schedule.warmup_steps = flags.warmup_steps.value_or(usual);
  if (schedule.floor > schedule.peak) {
    throw std::invalid_argument(
        fmt::format("--min-lr must be at most the learning rate {} (--lr), got {}", schedule.peak, schedule.floor));
  }
  if (schedule.warmup_steps > schedule.decay_steps) {
    throw std::invalid_argument(fmt::format("--warmup-steps must be at most --decay-steps, {}, got {}",
                                            schedule.decay_steps, schedule.warmup_steps));
  }
  return schedule;
}

void check_first_weights(const Training& training) {
  if (!training.files.weights || !training.settings.weights) return;
  const std::string& file = *training.files.weights;
  if (files::sha256_of_file(file) == training.settings.weights->sha256) return;
  throw std::invalid_argument(fmt::format("{}: has changed since the training began", file));
}

void load_first_weights(model::Trainer& trainer, const Training& training) {
  if (!training.files.weights) return;
  const fs::path file = *training.files.weights;
  model::load_weights(trainer.model(), file);
  const std::string weight = weight_not_finite(trainer.model());
  if (weight.empty()) return;
  throw std::invalid_argument(fmt::format("{}: tensor \"{}\" is not finite", file.string(), weight));
}

std::vector<Input> inputs_of(const TrainingFiles& files) {
  return {{"--data", files.data},
          {"--vocab", files.vocabulary},
          {"--validation-data", files.validation_data.value_or("")},
          {"--weights", files.weights.value_or("")}};
}

}  // namespace cli
