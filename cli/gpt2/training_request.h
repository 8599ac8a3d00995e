// Turns the flags of a training, or a stored training, into everything that it needs. Refuses everything that would
// fail later.
#pragma once

#include "ablations/gpt2/options.h"
#include "ablations/training/training_loop.h"
#include "cli/command.h"
#include "cli/place.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cli {

inline constexpr int64_t most_training_steps = 1000000;  // as the schema of a training has it

// A training; prepared_training() makes a training of it.
struct TrainingFlags {
  WorkloadFlags workload;
  std::string recipe, ladder, rung, weights;
  std::optional<int64_t> tokens, epochs;  // one of these, or workload.steps
  std::optional<int64_t> batch_tokens, warmup_steps, decay_steps;
  std::optional<double> lr, min_lr, weight_decay, clip, validation_share;
  std::string validation_data;
  std::optional<int64_t> validation_every, validation_batches;
  std::optional<int64_t> sample_every;  // else no samples
  int64_t sample_tokens = 100;
  std::string sample_prompt;
  std::optional<int64_t> save_every, keep;
  std::string out;
  bool resume = false, json = false;
};

// The length in tokens or epochs, besides --steps.
void add_length_flags(Command& command, TrainingFlags& flags);
// The learning rate and the update.
void add_learning_flags(Command& command, TrainingFlags& flags);
// How often the validation loss is taken, and of what.
void add_validation_flags(Command& command, TrainingFlags& flags);

struct PreparedTraining {
  Training training;
  RunOptions options;  // of a run with the same work: its process, model and files
  TrainingData data;
  std::vector<std::string> notes = {};  // what of the files is not followed; a note may be empty

  // The text's token at which the batches begin after `steps` steps.
  [[nodiscard]] int64_t position_after(int64_t steps) const;
};

// Each throws std::invalid_argument that names the flag or the file, its value and what is allowed. Each throws
// harness::Unfit for a device that this machine lacks. training.environment stays empty. prepared_again() is for
// --resume. Its flags only say where the texts are, which must be the same.
PreparedTraining prepared_training(const TrainingFlags& flags);
PreparedTraining prepared_again(const TrainingFlags& flags, const Training& training);

// Why the recipe cannot be trained with; empty: it can.
std::string training_obstacle(const model::Recipe& recipe);

// The learning rates of a training of so many steps, from the flags. Throws as above.
TrainingSchedule schedule_of(const TrainingFlags& flags, int64_t steps);

// Throws std::invalid_argument if the training's first weights have changed since it began.
void check_first_weights(const Training& training);
// Puts them into a new trainer. Throws std::invalid_argument where they are not finite.
void load_first_weights(model::Trainer& trainer, const Training& training);

// All files that a training reads.
std::vector<Input> inputs_of(const TrainingFiles& files);

}  // namespace cli
