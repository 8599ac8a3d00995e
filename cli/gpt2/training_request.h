// Turns the flags of a training, or a stored training, into everything that it needs. Refuses everything that would
// fail later.
#pragma once

#include "ablations/run/options.h"
#include "ablations/training/training_loop.h"
#include "cli/flags.h"
#include "cli/place.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cli {

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
