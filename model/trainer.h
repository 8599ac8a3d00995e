// One training step of GPT-2 under a recipe: data, forward, backward, clip, update. It has no clock; `on_phase` tells
// those who measure which phase begins.
//
// A step only enqueues work: on a GPU nothing here waits for the device, and losses are read after the last step. What
// changes from step to step (tokens, learning rate, the step's number) is on the device, so that a captured step can be
// replayed.
#pragma once

#include "model/data_parallel.h"
#include "model/execution.h"
#include "model/gpt2.h"
#include "model/gradients.h"
#include "model/inputs.h"
#include "model/optimizer.h"
#include "model/precision.h"
#include "model/ranks.h"
#include "model/recipe.h"
#include "model/sampler.h"
#include "model/schedule.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace model {

struct TrainerOptions {
  int64_t B = 1;             // sequences per micro-step, of each rank
  int64_t T = 256;           // tokens per sequence, at most the model's positions
  int64_t accumulation = 1;  // micro-steps per step
  int64_t max_steps = 50;    // the last step, counted from the first of all
  int64_t first_step = 0;    // how many steps were taken before, whose state will be loaded
  uint64_t seed = 1;         // weights and the place in the text where training begins
  Windows windows = Windows::consecutive;
  Schedule schedule = {};
  double weight_decay = AdamWOptions{}.weight_decay;
  double max_norm = AdamWOptions{}.max_norm;  // to which gradients are clipped; infinity: they are not
  int64_t scale_growth_interval = 2000;       // fp16: steps without overflow until the loss scale doubles
  Ranks ranks = {};                           // more than one needs data_parallel ddp
  std::vector<std::string> work = {};         // what else all ranks must have in common: "clip 1"
};

// What a step leaves to be read.
struct StepValues {
  double loss = 0;  // mean over its tokens, those of all ranks, in nats
  double norm = 0;  // of all gradients together, before clipping; not finite in a step that the scaler skipped
  double clip = 1;  // what the gradients were multiplied by
};

// What the recipe replaces in a step; the caller knows how (ablations/techniques/operations.h).
struct StepParts {
  // With `gradients` the operations write the weights' gradients there.
  Ops (*ops)(const Recipe& recipe, Gradients* gradients);
  MakeMasterUpdate* update;  // of master weights
  // Adds up what a backward pass has left in `gradients`. Called after each.
  void (*finish)(Gradients& gradients);
};

class Trainer {
 public:
  // The token stream must outlive the trainer. Throws std::invalid_argument for sizes out of range or a recipe that
  // contradicts itself, c10::Error if the device refuses. A data parallel rank returns when all are there, and throws
  // as DataParallel does.
  Trainer(const Config& config, const Recipe& recipe, const TrainerOptions& options, const TokenStream& tokens,
          const StepParts& parts);

  // Takes one update. Throws std::out_of_range after max_steps, LostRank. All ranks take it together. Before the first
  // one all copy rank 0's weights and state.
  void step();
  // One update with this rank's gradients alone, without any other rank. Ranks differ after it.
  void step_alone();
  // Whether `value` has been true on some rank. All ranks ask after each step and get the same answer. It travels with
  // the gradients of the next step, so it comes a step later, on a GPU two: the host does not wait for the step that it
  // has just enqueued. A single process has its answer at once. Throws LostRank.
  [[nodiscard]] bool on_any_rank(bool value);
  // Waits until all ranks have called it. Throws LostRank.
  void wait_for_ranks() {
    if (parallel_) parallel_->wait_for_ranks();
  }

  // How many steps were taken, with those before the first.
  [[nodiscard]] int64_t steps_taken() const { return step_; }

  // The values of the steps from number `from` on, counted from 0 and at least first_step. Waits for the device. Throws
  // LostRank.
  [[nodiscard]] std::vector<StepValues> values(int64_t from) const;
  // The loss of every step that was taken here. Waits for the device.
  [[nodiscard]] std::vector<double> losses() const;

  // The mean loss per token, in nats, of the stream's first `batches` windows of B x T tokens. It takes the recipe's
  // forward pass, one operation after the other, without gradients. Changes nothing of the training. Waits for the
  // device. Ranks share a window as they share a batch, and all get the mean. Throws std::invalid_argument for a stream
  // of fewer tokens than one window + 1, LostRank.
  [[nodiscard]] double evaluate(const TokenStream& tokens, int64_t batches) const;

  // The tokens that follow `prompt` (sampler.h), with the recipe's operations. Changes nothing of the training. Waits
  // for the device.
  [[nodiscard]] std::vector<uint16_t> sample(std::span<const uint16_t> prompt, const SampleOptions& options) const;

  // What must be kept beside the weights (checkpoint.h) to go on to the bit, by name. It is the optimizer's state, the
  // gradient scaler's, and the vocabulary's padding rows, which files of weights leave out. The tensors are the
  // trainer's own. Nothing is drawn at random after the weights, and the batches follow from the number of steps.
  [[nodiscard]] std::map<std::string, at::Tensor> state() const;
  // Copies such a state into this trainer, whose first_step says after how many steps it was taken. Throws
  // std::invalid_argument for a tensor that is missing, unknown, or of another shape or type. The message begins with
  // `where`.
  void load_state(const std::map<std::string, at::Tensor>& tensors, const std::string& where);

  // Waits for the device. Throws LostRank.
  void synchronize() const;

  // Steps that the gradient scaler skipped (fp16), 0 otherwise. Waits for the device.
  [[nodiscard]] int64_t skipped_steps() const;

  // The factor by which the loss is multiplied before backward: 1 without a scaler. Waits for the device.
  [[nodiscard]] double loss_scale() const;

  // What stays from step to step: weights, and the optimizer's moments. Gradients have the weights' size.
  [[nodiscard]] int64_t weight_bytes() const;
  [[nodiscard]] int64_t optimizer_bytes() const { return optimizer_.state_bytes(); }

  // Of all ranks.
  [[nodiscard]] int64_t tokens_per_step() const {
    return options_.B * options_.T * options_.accumulation * options_.ranks.size;
  }
  [[nodiscard]] const Recipe& recipe() const { return recipe_; }
  [[nodiscard]] GPT2& model() { return model_; }
  [[nodiscard]] Ops& ops() { return ops_; }
  [[nodiscard]] const Inputs& inputs() const { return inputs_; }

  // For tests: the forward pass as a step does it, on tokens (B, T) int64 -> (B, T, rows), without a loss.
  [[nodiscard]] at::Tensor forward_logits(const at::Tensor& tokens) const;

  // The next step dispatches its operations again, into a new graph. Eager steps always do.
  void recapture() { executor_->recapture(); }

  // Called with "data", "forward", "backward", "clip", "update" as each begins, with "replay" for a captured graph's
  // work. "" ends a step.
  std::function<void(std::string_view phase)> on_phase = [](std::string_view) {};

 private:
  // For fp16 the loss is multiplied by `scale`. It is halved when a gradient overflows, and doubled after
  // scale_growth_interval steps without (Micikevicius et al. 2018; torch.amp.GradScaler's numbers). All is on the
  // device.
  struct GradientScaler {
    at::Tensor scale, growth_tracker, found_inf, skipped;
  };

  void take_step(bool alone);
  void run_step();
  void agree();
  void wait_for_reductions() const;
  [[nodiscard]] Share share() const { return {.rank = options_.ranks.rank, .ranks = options_.ranks.size}; }
  void keep(const at::Tensor& loss, const Clip& clip);
  // inputs, targets (B, T) int64 on the device
  [[nodiscard]] at::Tensor loss_of(const at::Tensor& inputs, const at::Tensor& targets) const;

  Recipe recipe_;
  TrainerOptions options_;
  at::Device device_;
  std::optional<c10::cuda::CUDAStreamGuard> stream_;  // graph capture is refused on the default stream
  MatmulPrecisionScope matmul_precision_;
  SdpaScope sdpa_;
  DeterminismScope determinism_;
  GPT2 model_;
  std::unique_ptr<Gradients> gradients_;  // of master weights; else null
  Ops ops_;
  AdamW optimizer_;
  Inputs inputs_;
  std::unique_ptr<DataParallel> parallel_;  // null: there is one rank, which reduces nothing
  std::unique_ptr<Executor> executor_;      // its graph must end before NCCL does
  std::optional<GradientScaler> scaler_;
  bool agreed_ = false;  // all ranks have the same weights and state
  bool alone_ = false;   // the last step reduced nothing
  at::Tensor values_;    // (max_steps, 3) float32: loss, norm and clip of each step
  // Of ranks only, for on_any_rank(), each float32 and above 0 for true:
  at::Tensor wish_;    // of this rank
  at::Tensor wishes_;  // of all ranks, as the last step has reduced them
  struct Answer {
    at::Tensor host;  // pinned
    c10::cuda::CUDAEvent copied;
  };
  std::array<Answer, 2> answers_;  // on a GPU, of the last two steps
  size_t answer_ = 0;              // the older one
  // Of graphs only:
  at::Tensor learning_rates_;  // (max_steps) float32, the schedule
  at::Tensor step_index_;      // (1) int64
  at::Tensor step_numbers_;    // (max_steps) int64: 0, 1, 2, ...; where the recipe is deterministic
  int64_t step_;
};

}  // namespace model
