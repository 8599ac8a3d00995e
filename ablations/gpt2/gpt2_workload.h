// GPT-2's training as the harness sees it: what a run times, a trace records and counters count.
#pragma once

#include "ablations/gpt2/options.h"
#include "harness/clock/clock.h"
#include "harness/observe/labels.h"
#include "model/config.h"
#include "model/data.h"
#include "model/recipe.h"
#include "model/trainer.h"
#include "results/common.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace ablations {

// Sets the host's memory and the threads as the run wants them: before the process makes its first tensor.
void prepare_process(const RunOptions& options);

class Gpt2Workload : public harness::Workload {
 public:
  // Memory policy, threads, tokens and trainer; `steps` are how many may be taken. Throws std::invalid_argument for
  // sizes out of range and as check_warmup, before anything is allocated.
  Gpt2Workload(const RunOptions& options, int64_t steps);

  Gpt2Workload(const Gpt2Workload&) = delete;  // its trainer calls back
  Gpt2Workload& operator=(const Gpt2Workload&) = delete;

  void step() override { trainer_.step(); }
  void synchronize() override { trainer_.synchronize(); }
  [[nodiscard]] bool on_cuda() const override { return options_.recipe.device == model::Device::cuda; }

  [[nodiscard]] model::Trainer& trainer() { return trainer_; }
  [[nodiscard]] const model::Config& config() const { return config_; }
  // Every step is labelled, its backward pass only after follow_autograd(), or where an NVTX tool is attached: it costs
  // time.
  [[nodiscard]] const harness::Labels& labels() const { return *labels_; }
  void follow_autograd() { label(true); }

  [[nodiscard]] results::Workload description() const {
    return workload_of(options_, tokens_.sha256, static_cast<int64_t>(tokens_.size()));
  }

  // The host's time for the batch of each step so far.
  [[nodiscard]] const std::vector<double>& data_ms() const { return data_clock_.ms(); }
  // How much the process grew when the data were opened. None if the kernel does not say.
  [[nodiscard]] std::optional<int64_t> opened_bytes() const;

 private:
  void label(bool follow_autograd);

  RunOptions options_;
  model::Config config_;
  std::optional<int64_t> resident_before_;
  model::TokenStream tokens_;
  std::optional<int64_t> resident_opened_;
  model::Trainer trainer_;
  harness::PhaseClock data_clock_;
  std::unique_ptr<harness::Labels> labels_;
};

// How a GPU's products are made, the same in all runs of a study: what the first run chooses by timing, later ones take
// from the file that $LADDER_PRODUCTS names. Without the variable nothing is read or written.

// From the file, if it is there and was written with this GPU and this cuBLASLt. Throws std::invalid_argument for a
// file that is none.
void keep_study_choices();

// This process's choices, after those that are in the file.
void write_study_choices();

}  // namespace ablations
