// The loop of a training: steps, and between them what is looked at, written down and saved. It knows no folder. The
// caller does what is to be done with a step's figures and with a checkpoint.
#pragma once

#include "model/data.h"
#include "model/trainer.h"
#include "results/training.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

struct TrainingData {
  model::TokenStream training;
  model::TokenStream validation;  // no tokens: there is none
};

// The text's last `share` of tokens for validation, the others to train on.
TrainingData with_validation_share(model::TokenStream text, double share);

// Throws std::invalid_argument where the settings' batches do not fit into one of the parts; names the flag to change.
void check_data(const TrainingData& data, const TrainingSettings& settings);

// The trainer's options for a training that goes on after `first_step` steps. `ranks`: as many as the settings have.
model::TrainerOptions trainer_options(const TrainingSettings& settings, int64_t first_step = 0,
                                      const model::Ranks& ranks = {});

struct TrainingHooks {
  // How often the losses are read, in steps. On a GPU that waits for the device. They are also read before a validation
  // and a checkpoint.
  int64_t log_every = 1;
  // Every step, in order.
  std::function<void(const TrainingStep&, double seconds_left)> on_step = [](const TrainingStep&, double) {};
  // Saves a checkpoint of the step that on_step was just called with. Null: there are none.
  std::function<void(const TrainingStep&)> save = nullptr;
  // What the model writes now. Called where training.samples says so.
  std::function<std::string()> sample = nullptr;
  // Asked after every step. Once true, that step is the last. Of several ranks all end after the same step, which comes
  // one step later, on GPUs two.
  std::function<bool()> interrupted = [] { return false; };
  // The losses of the steps before, for spikes.h; the last ones are enough.
  std::vector<double> losses_before = {};
};

struct TrainingEnd {
  enum class Why { finished, interrupted, not_finite } why = Why::finished;
  int64_t step = 0;       // the last one
  std::string what = {};  // is not finite: "the loss of step 12"
};

// Trains from where the trainer is to the last of the training's steps. An interrupt ends it early. So does a loss, a
// norm of gradients or a weight that is not finite; nothing of it is saved. Passes on what the hooks throw. All ranks
// call it alike: with a `save` that is null on all or on none. Throws model::LostRank.
TrainingEnd carry_on(model::Trainer& trainer, const Training& training, const TrainingData& data,
                     const TrainingHooks& hooks);

// Called before a training resumes. Adds to its last step what an interrupt has left out, and to the checkpoint if one
// was due at that step. Returns what is not finite. All ranks call it alike. A `step` that nobody logs needs no
// hooks.sample.
std::string complete_last_step(model::Trainer& trainer, const Training& training, const TrainingData& data,
                               const TrainingHooks& hooks, Checkpoint& checkpoint, TrainingStep& step);

// The name of a weight that is not finite; empty: all are.
std::string weight_not_finite(const model::GPT2& gpt2);

}  // namespace ablations
