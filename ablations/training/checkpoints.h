// The checkpoints in a training's folder (training_log.h).
#pragma once

#include "model/trainer.h"
#include "results/training.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

class Checkpoints {
 public:
  enum class Access { reads, writes };

  // Those in a training's folder. Who writes removes what killed programs left in the folder; nobody else may be at
  // work in it. `keep`: how many of the last ones stay. Throws std::invalid_argument for one that cannot be read.
  Checkpoints(const std::filesystem::path& folder, int64_t keep, Access access = Access::writes);

  struct Stored {
    int64_t step = 0;
    std::optional<double> validation_loss;
  };
  // None where there is none; best: with a validation loss.
  [[nodiscard]] std::optional<Stored> latest() const;
  [[nodiscard]] std::optional<Stored> best() const;
  [[nodiscard]] std::filesystem::path place_of(const Stored& stored) const;

  // Saves a checkpoint after those that are there, and removes those that need not stay. Throws std::system_error where
  // it cannot be written; all others are as they were then.
  void save(model::Trainer& trainer, Checkpoint checkpoint);
  // The latest one's checkpoint.json again, which now has a validation loss.
  void complete(const Checkpoint& checkpoint);

 private:
  void link(const std::string& name, const std::optional<Stored>& stored);
  void remove_old();

  std::filesystem::path folder_;
  int64_t keep_;
  std::vector<Stored> stored_;  // by their steps
  bool links_ = true;           // false once one could not be made
};

// The latest checkpoint of the training in the folder. Throws std::invalid_argument where it cannot be read, or is of
// another training: the message says what differs.
std::optional<Checkpoint> latest_checkpoint(const Checkpoints& checkpoints, const Training& training);

// Throws std::invalid_argument for weights in a checkpoint that are not as they were saved: it names the file and the
// last whole checkpoint before. Other weights pass, as those of checkpoints without hashes do.
void check_undamaged(const std::filesystem::path& weights);

// Copies a checkpoint's weights and state into a trainer whose first_step is the checkpoint's. Throws
// std::invalid_argument that names the file and what does not fit, or is damaged.
void load_checkpoint(model::Trainer& trainer, const std::filesystem::path& checkpoint);

}  // namespace ablations
