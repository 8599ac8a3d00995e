// A step's operations as a table: what each computes, reads, writes and keeps, counted from shapes. This file and
// step_memory.h add it up. Each technique amends the rows that it changes (Technique::amend).
#pragma once

#include "harness/machine/peaks.h"
#include "model/config.h"
#include "model/recipe.h"
#include "results/trace.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ablations {

constexpr double f32 = 4, i64 = 8;  // bytes of a number

// FLOPs of a matrix product (M, K) x (K, N): M N K multiplications and as many additions.
constexpr double product_flops(double M, double N, double K) { return 2 * M * N * K; }

// FLOPs of causal attention's forward pass, for each of B sequences and C / HS heads. It is half of q k^T, (T, HS) x
// (HS, T), and half of p v, (T, T) x (T, HS).
constexpr double attention_flops(double B, double T, double C) { return product_flops(B * T, T, C); }

// FLOPs of the backward pass of a product or of attention: two products for each, one for each operand's gradient.
constexpr double backward_flops(double forward) { return 2 * forward; }

// What rows are made of: numbers of things, and bytes of one number.
struct StepSizes {
  StepSizes(const model::Config& config, const model::Recipe& recipe, int64_t batch, int64_t context);

  const model::Recipe& recipe;
  bool on_cpu, casts;
  int64_t layers;
  double T, C, BT, BTC, heads;
  double rows, positions;  // of the embeddings, padding included
  double parameters;       // all weights, padding included
  double squares;          // the T x T matrices of all heads of a layer
  double low;              // in the products' type
  double stream;           // in the residual stream
  double normed;           // that LayerNorm makes
  double held;             // of a weight, as products and the embedding read it
};

// One call of an operation. Bytes that it reads and writes are without gradients of weights.
struct StepRow {
  std::string op = {}, part = {};  // as in ops.h, and as the model announces it (Ops::on_part)
  int64_t times = 1;               // per micro-step; of the update: per step
  double flops = 0;                // of the forward pass
  double forward_bytes = 0, backward_bytes = 0;
  double gradients = 0;          // of weights: how many numbers
  bool is_backward_too = false;  // the forward pass makes the gradients, and `flops` are of both
  double kept = 0;               // bytes that forward leaves for backward, without `matrices`
  double matrices = 0;           // likewise, in matrices T x T or of logits
  double working = 0;  // bytes for a while: beside what the loss keeps, in another's backward pass, in the update
};

struct StepTable {
  std::vector<StepRow> rows;  // of forward, in order
  StepRow clip = {.op = "clip"}, update = {.op = "adamw"};
  double copies = 0;  // bytes of weights' copies that stay from step to step

  // The row of a part. Throws std::out_of_range if there is none.
  StepRow& at(const std::string& part);
  // Puts one row in the place of these parts, which must be neighbours.
  void fuse(const std::vector<std::string>& parts, StepRow row);
};

// A step of B sequences of T tokens under the recipe.
StepTable step_table(const StepSizes& sizes);

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
//
// The costs of one step: `accumulation` micro-steps of B sequences of T tokens.
std::vector<Cost> step_costs(const model::Config& config, const model::Recipe& recipe, int64_t B, int64_t T,
                             int64_t accumulation);

// What matrix products are made in: autocast's type, else TF32 where a GPU may take it for float32, else fp32. On a CPU
// the recipe does not say how oneDNN makes float32 products.
harness::NumberType multiplied_in(const model::Recipe& recipe);

// The name of the rate that limits a recipe's matrix products (ablations/profile/rates.h).
std::string rate_of(const model::Recipe& recipe);

}  // namespace ablations
