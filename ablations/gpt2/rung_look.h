// An untimed look at a rung's first steps: what client/look writes of a command, so that study/same_training.h can
// judge it beside its reference's.
#pragma once

#include "ablations/gpt2/options.h"
#include "files/json_file.h"
#include "model/trainer.h"

#include <array>
#include <cstdint>
#include <optional>

namespace ablations {

// Norm and eight sums with random signs, in float64, as client/look/ladder_sketch.py makes them.
std::array<double, 9> sums_of(const at::Tensor& numbers);

// The results of operations are off by up to 2^-bits of each number, at random.
struct Rounding {
  int bits = 0;
  uint64_t seed = 1;
};

// Takes so many steps of a trainer that has taken none, and returns the look. Gradients come from the optimizer's first
// moments, so they are as it has used them, however they were made. Wraps the trainer's operations for good.
files::Json look_at_steps(model::Trainer& trainer, int64_t steps, const std::optional<Rounding>& rounding = {});

// The same of a run, with half of its threads and without a graph where there is rounding. Throws as Gpt2Workload.
files::Json look_of(RunOptions options, int64_t steps, const std::optional<Rounding>& rounding);

}  // namespace ablations
