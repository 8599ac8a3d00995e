// The least that a step costs: FLOPs and bytes of every operation of the model and the trainer, counted from shapes.
//
// FLOPs are the multiplications and additions of matrix products only, 2 M N K each, as torch's FlopCounterMode and MFU
// count them. Operations without matrix products are limited by memory on all of today's devices. Causal attention
// counts as half of the T x T square, T^2 / 2 of its entries, as in MFU's 6 L C T. Recomputing it in backward does not
// count.
//
// Bytes: each input is read once and each output written once, as if an operation were one kernel with enough
// registers. Each tensor has the type in which the model hands it from one operation to the next:
//   float32            weights, their gradients, AdamW's moments, the residual stream, LayerNorm's output, the loss
//   the autocast type  what linear, attention, gelu and head make, and a fused LayerNorm's output; if the recipe says
//                      so, the residual stream; of master weights what products and the embedding read
//   int64              tokens
// A gradient has the type of what it is the gradient of. The first micro-step writes gradients of weights once; each
// later one reads and writes them. Internal data of an implementation is not counted (LayerNorm's statistics,
// attention's logsumexp, low-precision copies of weights).
#pragma once

#include "ablations/techniques/step_table.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ablations {

struct Cost {
  std::string phase;  // "forward", "backward", "clip", "update"
  std::string op;     // as in ops.h; "clip", "adamw"
  std::string part;   // as the model announces it (Ops::on_part): "c_attn", "ln_1", "head"; "" of clip and adamw
  int64_t calls = 0;  // per step
  double flops = 0;   // per step
  double bytes = 0;   // per step
};

// The costs of one step: `accumulation` micro-steps of B sequences of T tokens.
std::vector<Cost> step_costs(const model::Config& config, const model::Recipe& recipe, int64_t B, int64_t T,
                             int64_t accumulation);

}  // namespace ablations
