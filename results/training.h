// What a training leaves in its folder (training/training_folder.h): training.json says what is trained and how, each
// line of log.jsonl is a step, and checkpoint.json stands beside the weights that it is about. Their schemas are
// results/schemas/training.v1.json, training_step.v1.json and checkpoint.v1.json.
#pragma once

#include "model/schedule.h"
#include "results/common.h"
#include "results/environment.h"
#include "results/workload.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

struct TrainingSchedule : model::Schedule {
  static void fields(auto&& field) {
    field("max", &TrainingSchedule::peak);
    field("min", &TrainingSchedule::floor);
    field("warmup_steps", &TrainingSchedule::warmup_steps);
    field("decay_steps", &TrainingSchedule::decay_steps);
  }
};

// Weights that a training begins with.
struct FirstWeights {
  std::string source;  // the file's name, not its place
  std::string sha256;  // of the file

  static void fields(auto&& field) {
    field("source", &FirstWeights::source);
    field("sha256", &FirstWeights::sha256);
  }
};

// All that its losses depend on, but for the machine and the program. Two trainings of the same settings are the same.
struct TrainingSettings : Shape {
  std::string model;
  model::Recipe recipe;
  std::optional<int64_t> ranks;  // that share each step, with B sequences of their own; none: one process
  int64_t steps = 1;
  TrainingSchedule learning_rate;
  double weight_decay = 0;     // of tensors with two or more dimensions
  std::optional<double> clip;  // the norm to which gradients are clipped; none: they are not
  uint64_t seed = 1;
  int64_t threads = 1;
  Workload::Data data;                            // the whole text
  double validation_share = 0;                    // its last part, which is not trained on
  std::optional<Workload::Data> validation_data;  // in place of that part: a text of its own
  // How often the validation loss is taken, and over how many batches of B x T tokens; 0: never.
  int64_t validation_every = 0, validation_batches = 0;
  std::optional<FirstWeights> weights;  // none: drawn from the seed

  // Of all ranks: at a time, and in a step.
  [[nodiscard]] int64_t sequences() const { return B * ranks.value_or(1); }
  [[nodiscard]] int64_t tokens_per_step() const { return sequences() * T * accumulation; }

  static void fields(auto&& field) {
    field("model", &TrainingSettings::model);
    Shape::fields(field);
    field("recipe", &TrainingSettings::recipe);
    field("ranks", &TrainingSettings::ranks, None::absent);
    field("steps", &TrainingSettings::steps);
    field("learning_rate", &TrainingSettings::learning_rate);
    field("weight_decay", &TrainingSettings::weight_decay);
    field("clip", &TrainingSettings::clip);
    field("seed", &TrainingSettings::seed);
    field("threads", &TrainingSettings::threads);
    field("data", &TrainingSettings::data);
    field("validation_share", &TrainingSettings::validation_share);
    field("validation_data", &TrainingSettings::validation_data);
    field("validation_every", &TrainingSettings::validation_every);
    field("validation_batches", &TrainingSettings::validation_batches);
    field("weights", &TrainingSettings::weights);
  }
};

// The places of what is read.
struct TrainingFiles {
  std::string data, vocabulary;
  std::optional<std::string> validation_data, weights;
  bool end_of_text = false;  // "<|endoftext|>" in a text is that token

  static void fields(auto&& field) {
    field("data", &TrainingFiles::data);
    field("vocabulary", &TrainingFiles::vocabulary);
    field("validation_data", &TrainingFiles::validation_data);
    field("weights", &TrainingFiles::weights);
    field("end_of_text", &TrainingFiles::end_of_text, None::default_absent);
  }
};

// Texts that the model writes while it is trained. They change nothing of the training.
struct TrainingSamples {
  int64_t every = 1;   // steps; there is one after the first and the last step, too
  std::string prompt;  // UTF-8
  int64_t tokens = 1;  // of each text, at most

  static void fields(auto&& field) {
    field("every", &TrainingSamples::every);
    field("prompt", &TrainingSamples::prompt);
    field("tokens", &TrainingSamples::tokens);
  }
};

struct Training {
  static constexpr auto kind = "training";

  std::string created;  // UTC, ISO 8601
  TrainingSettings settings;
  std::string recipe_from;  // where the recipe comes from, in words
  int64_t parameters = 0;
  double flops_per_step = 0;  // Config::flops_per_token times the step's tokens
  TrainingFiles files;
  int64_t save_every = 1;  // steps; 0: there are no checkpoints
  int64_t keep = 1;        // of the last checkpoints; the best one stays besides
  std::optional<TrainingSamples> samples;
  Environment environment;

  static void fields(auto&& field) {
    field("created", &Training::created);
    field("settings", &Training::settings);
    field("recipe_from", &Training::recipe_from);
    field("parameters", &Training::parameters);
    field("flops_per_step", &Training::flops_per_step);
    field("files", &Training::files);
    field("save_every", &Training::save_every);
    field("keep", &Training::keep);
    field("samples", &Training::samples, None::absent);
    field("environment", &Training::environment);
  }
};

struct TrainingStep {
  static constexpr auto kind = "training_step";

  int64_t step = 1;                       // from 1
  int64_t tokens = 0;                     // trained on so far
  std::optional<double> loss;             // mean over the step's tokens, in nats; none: not finite
  std::optional<double> validation_loss;  // after the step
  double learning_rate = 0;
  std::optional<double> norm;  // of all gradients before clipping; none: not finite
  std::optional<double> clip;  // what the gradients were multiplied by
  double ms = 0;               // mean over the steps that were looked at together
  double tokens_per_s = 0;
  std::optional<double> mfu;          // 0.47: 47 %; absent where no peak of the device is known
  std::optional<double> spike;        // the loss's z-score (training/spikes.h), where it is a spike
  std::optional<std::string> sample;  // what the model wrote after the step, UTF-8

  static void fields(auto&& field) {
    field("step", &TrainingStep::step);
    field("tokens", &TrainingStep::tokens);
    field("loss", &TrainingStep::loss);
    field("validation_loss", &TrainingStep::validation_loss, None::absent);
    field("learning_rate", &TrainingStep::learning_rate);
    field("norm", &TrainingStep::norm);
    field("clip", &TrainingStep::clip);
    field("ms", &TrainingStep::ms);
    field("tokens_per_s", &TrainingStep::tokens_per_s);
    field("mfu", &TrainingStep::mfu, None::absent);
    field("spike", &TrainingStep::spike, None::absent);
    field("sample", &TrainingStep::sample, None::absent);
  }
};

struct Checkpoint {
  static constexpr auto kind = "checkpoint";

  int64_t step = 0;                             // how many were taken
  int64_t position = 0;                         // the token at which the next batch begins
  std::optional<double> loss, validation_loss;  // of the last step, and after it
  Training training;

  static void fields(auto&& field) {
    field("step", &Checkpoint::step);
    field("position", &Checkpoint::position);
    field("loss", &Checkpoint::loss);
    field("validation_loss", &Checkpoint::validation_loss);
    field("training", &Checkpoint::training);
  }
};

// What differs between two settings: "recipe/autocast: bf16 against off". Empty: nothing.
std::vector<std::string> differences(const TrainingSettings& settings, const TrainingSettings& others);

// Compiled once, in the source beside this.
extern template files::Json json_of(const Training&);
extern template Training value_from(const files::Json&, const std::string&);
extern template files::Json json_of(const TrainingStep&);
extern template TrainingStep value_from(const files::Json&, const std::string&);
extern template files::Json json_of(const Checkpoint&);
extern template Checkpoint value_from(const files::Json&, const std::string&);

// What of the step is not finite; empty: all is. The gradient scaler of fp16 skips steps whose gradients overflow.
std::string fault_of(const TrainingStep& step, const TrainingSettings& settings);

}  // namespace ablations
