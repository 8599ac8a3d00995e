// What a step costs at the least: FLOPs and bytes of every operation of the model and of the trainer, counted from
// shapes.
//
// FLOPs are the multiplications and additions of matrix products, 2 M N K each, and of nothing else, as torch's
// FlopCounterMode and MFU count them; what has none is limited by memory on any device of today. Causal attention is
// counted by half of the T x T square, T^2 / 2 of its entries, which is what MFU's 6 L C T takes; recomputing it in
// backward counts nothing.
//
// Bytes: each input read once and each output written once, as if an operation were one kernel with all it needs in
// registers. Each tensor has the type in which the model hands it from one operation to the next: weights, their
// gradients, AdamW's moments, the residual stream, LayerNorm's output and the loss float32; what linear, attention,
// gelu and head make the autocast type; tokens int64; a gradient the type of what it is the gradient of. Gradients of
// weights are written once by the first micro-step, read and written by each later one. Not counted: what an
// implementation keeps for itself (LayerNorm's statistics, attention's logsumexp, low-precision copies of weights).
#pragma once

#include "model/config.h"
#include "model/recipe.h"

#include <cstdint>
#include <string>
#include <vector>

namespace model {

struct Cost {
  std::string phase;  // "forward", "backward", "clip", "update"
  std::string op;     // as in ops.h; "clip", "adamw"
  std::string part;   // as the model announces it (Ops::on_part): "c_attn", "ln_1", "head"; "" of clip and adamw
  int64_t calls = 0;  // per step
  double flops = 0;   // per step
  double bytes = 0;   // per step
};

// FLOPs of a matrix product (M, K) x (K, N): M N K multiplications and as many additions.
constexpr double product_flops(double M, double N, double K) { return 2 * M * N * K; }

// FLOPs of causal attention's forward pass: q k^T, (T, HS) x (HS, T), and p v, (T, T) x (T, HS), for each of B
// sequences and C / HS heads, half of each.
constexpr double attention_flops(double B, double T, double C) { return product_flops(B * T, T, C); }

// FLOPs of the backward pass of a product or of attention: of each product two, one for each operand's gradient.
constexpr double backward_flops(double forward) { return 2 * forward; }

// Of one step: `accumulation` micro-steps of B sequences of T tokens. Of the recipe, autocast and vocabulary_rows
// count.
std::vector<Cost> step_costs(const Config& config, const Recipe& recipe, int64_t B, int64_t T, int64_t accumulation);

// What a step holds in memory at its largest, counted from shapes, in bytes. Less than a process takes: what libraries
// keep for themselves (their code, workspaces, fragmentation) is not counted.
struct StepMemory {
  double weights = 0, gradients = 0, moments = 0;  // float32; AdamW's two moments
  double weight_copies = 0;                        // autocast's, of the weights that products read
  double activations = 0;                          // what forward leaves for backward
  double working = 0;                              // what exists beside them at the loss, or in one layer's attention
  [[nodiscard]] double total() const { return weights + gradients + moments + weight_copies + activations + working; }
};

// Of one micro-step of B sequences of T tokens: more of them take no more memory.
StepMemory step_memory(const Config& config, const Recipe& recipe, int64_t B, int64_t T);

}  // namespace model
