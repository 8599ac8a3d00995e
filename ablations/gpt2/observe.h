// Facts observed of the process after the timed steps. Each technique observes its own (ablations/techniques); facts
// that several of them use are counted here. Nothing here looks at what the recipe asks for.
#pragma once

#include "model/trainer.h"
#include "results/observations.h"

namespace ablations {

// Steps that observe() takes at most.
inline constexpr int64_t observed_steps = 3;

// What a step holds in memory, by parts, in bytes.
struct MemoryParts {
  int64_t weights = 0, gradients = 0, optimizer = 0;
  int64_t weight_copies = 0;  // autocast's 16-bit copies of weights that a forward pass leaves for backward
  int64_t activations = 0;    // what else a forward pass of one micro-step leaves for backward
};

struct Observed {
  Observations observations;
  MemoryParts memory;
};

// Takes untimed steps of the trainer, at most `observed_steps`, and a few small products. A graph is first replayed,
// which shows what a step dispatches. Then it is captured again, which shows its nodes.
Observed observe(model::Trainer& trainer);

}  // namespace ablations
