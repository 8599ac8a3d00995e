// What a training leaves in its folder (study/training/training_log.h). `training.json` says what is trained and how.
// Each line of log.jsonl is a step. `checkpoint.json` stands beside the weights that it is about. Their schemas are
// results/schemas/training.v1.json, training_step.v1.json and checkpoint.v1.json.
#pragma once

#include "results/common.h"
#include "results/environment.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace results {

// How the learning rate, which has no unit, changes over the steps (model/schedule.h).
struct TrainingSchedule {
  double peak = 6e-4, floor = 6e-5;
  int64_t warmup_steps = 10;
  int64_t decay_steps = 50;  // steps after which the floor is reached

  LADDER_FIELDS(TrainingSchedule, (peak, {.name = "max", .least = 0}), (floor, {.name = "min", .least = 0}),
                (warmup_steps, {.least = 0, .most = 1000000}), (decay_steps, {.least = 0, .most = 1000000}))
};

// Weights that a training begins with.
struct FirstWeights {
  std::string source;  // the file's name, not its place
  std::string sha256;  // of the file

  LADDER_FIELDS(FirstWeights, source, sha256)
};

// All that its losses depend on, except machine and program. Two trainings of the same settings are the same.
struct TrainingSettings : Shape {
  std::string model;
  files::Json recipe = plain_recipe();
  std::optional<int64_t> ranks;  // that share each step, with B sequences of their own; none: one process
  int64_t steps = 1;
  TrainingSchedule learning_rate;
  double weight_decay = 0;     // of tensors with two or more dimensions
  std::optional<double> clip;  // the norm to which gradients are clipped; none: they are not
  uint64_t seed = 1;
  bool random_windows = false;  // as in Workload
  int64_t threads = 1;
  Workload::Data data;                            // the whole text
  double validation_share = 0;                    // its last part, which is not trained on
  std::optional<Workload::Data> validation_data;  // in place of that part: a text of its own
  // How often the validation loss is taken, and over how many batches of B x T tokens; 0: never.
  int64_t validation_every = 0, validation_batches = 0;
  std::optional<FirstWeights> weights;  // none: drawn from the seed

  // All ranks together: sequences at a time, and tokens in a step.
  [[nodiscard]] int64_t sequences() const { return B * ranks.value_or(1); }
  [[nodiscard]] int64_t tokens_per_step() const { return sequences() * T * accumulation; }

  LADDER_MORE_FIELDS(Shape, TrainingSettings, (model, {.most = 64}), recipe,
                     (ranks, {.none = None::absent, .least = 1, .most = 65536}), (steps, {.least = 1, .most = 1000000}),
                     learning_rate, (weight_decay, from_0), clip, seed, (random_windows, absent),
                     (threads, {.least = 1, .most = 4096}), data, (validation_share, {.least = 0, .most = 0.9}),
                     validation_data, (validation_every, {.least = 0, .most = 1000000}),
                     (validation_batches, {.least = 0, .most = 1000000}), weights)
};

// The places of what is read.
struct TrainingFiles {
  std::string data, vocabulary;
  std::optional<std::string> validation_data, weights;
  bool end_of_text = false;  // "<|endoftext|>" in a text is that token

  LADDER_FIELDS(TrainingFiles, (data, from_1), vocabulary, validation_data, weights, (end_of_text, absent))
};

// Texts that the model writes while it is trained. They do not change the training.
struct TrainingSamples {
  int64_t every = 1;   // steps; there is one after the first and the last step, too
  std::string prompt;  // UTF-8
  int64_t tokens = 1;  // of each text, at most

  LADDER_FIELDS(TrainingSamples, (every, {.least = 1, .most = 1000000}), prompt,
                (tokens, {.least = 1, .most = 1000000}))
};

struct Training {
  static constexpr auto kind = "training";
  static constexpr auto about = "What is trained, on what and how (training.json in its folder)";

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

  LADDER_FIELDS(Training, created, settings, recipe_from, (parameters, from_1), (flops_per_step, from_0), files,
                (save_every, from_0), (keep, from_1), (samples, absent), environment)
};

struct TrainingStep {
  static constexpr auto kind = "training_step";
  static constexpr auto about = "A step of a training: a line of its log.jsonl";

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
  std::optional<double> spike;        // the loss's z-score (study/training/spikes.h), where it is a spike
  std::optional<std::string> sample;  // what the model wrote after the step, UTF-8

  LADDER_FIELDS(TrainingStep, (step, {.least = 1, .most = 1000000}), (tokens, from_1), loss, (validation_loss, absent),
                (learning_rate, from_0), norm, clip, (ms, from_0), (tokens_per_s, from_0),
                (mfu, {.none = None::absent, .least = 0}), (spike, absent), (sample, absent))
};

struct Checkpoint {
  static constexpr auto kind = "checkpoint";
  static constexpr auto about =
      "A checkpoint: checkpoint.json beside the weights and the optimizer's state of a training after some steps";

  int64_t step = 0;                             // how many were taken
  int64_t position = 0;                         // the token at which the next batch begins
  std::optional<double> loss, validation_loss;  // of the last step, and after it
  Training training;
  std::map<std::string, std::string> sha256;  // of the files beside it, by name; older checkpoints have none

  LADDER_FIELDS(Checkpoint, (step, {.least = 1, .most = 1000000}), (position, from_0), loss, validation_loss, training,
                (sha256, {.none = None::absent, .pattern = sha256_pattern}))
};

// What differs between two settings: "recipe/autocast: bf16 against off". Empty: nothing.
std::vector<std::string> differences(const TrainingSettings& settings, const TrainingSettings& others);

LADDER_COMPILED_ONCE(Training)
LADDER_COMPILED_ONCE(TrainingStep)
LADDER_COMPILED_ONCE(Checkpoint)

// Which value of the step is not finite; empty: none. The gradient scaler of fp16 skips steps whose gradients overflow.
std::string failure_of(const TrainingStep& step, const TrainingSettings& settings);

// What is drawn of a training: results/schemas/training_report.v1.json. A log may have a million steps; here are so few
// points that a page can show them.

struct Spread {
  double lo = 0, mean = 0, hi = 0;

  LADDER_FIELDS(Spread, lo, mean, hi)
};

// Steps that are one point of each chart.
struct TrainingStretch {
  int64_t first = 1, last = 1;
  std::optional<Spread> loss, norm;       // of the steps where it is finite; none: there is no such step
  double learning_rate = 0;               // of the last step
  double tokens_per_s = 0;                // all their tokens over all their time
  std::optional<double> validation_loss;  // the last one
  int64_t spikes = 0;                     // study/training/spikes.h

  LADDER_FIELDS(TrainingStretch, (first, from_1), (last, from_1), loss, norm, (learning_rate, from_0),
                (tokens_per_s, from_0), validation_loss, (spikes, from_0))
};

// What the model wrote after a step.
struct SampleAfter {
  int64_t step = 1;
  std::string text;

  LADDER_FIELDS(SampleAfter, (step, from_1), text)
};

struct TrainingReport {
  static constexpr auto kind = "training_report";
  static constexpr auto about = "What is drawn of a training: few points of its log, and its sentences";

  std::string source;  // the folder's name
  NamedDevice device;
  Training training;
  int64_t steps = 1;  // that were taken
  std::vector<TrainingStretch> stretches;
  std::vector<SampleAfter> samples;  // few of them
  Said said;

  LADDER_FIELDS(TrainingReport, source, device, training, (steps, {.least = 1, .most = 1000000}),
                (stretches, {.items = 1, .most_items = 1000}), (samples, {.most_items = 5}), said)
};

LADDER_COMPILED_ONCE(TrainingReport)

}  // namespace results
