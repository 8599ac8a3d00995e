// What a run looks like from outside its recipe: facts read off the process after the timed steps. Nothing here asks
// the recipe what it wanted; proof.h compares the two.
#pragma once

#include "model/trainer.h"

#include <nlohmann/json.hpp>

namespace ablations {

// Steps that observe() takes at most.
inline constexpr int64_t observed_steps = 3;

// Takes untimed steps of the trainer, at most `observed_steps`, and a few small products. A graph is first replayed,
// which shows what a step dispatches, then captured again, which shows what it is made of.
//   parameters_device   "cpu", "cuda:0"
//   matmul_precision    {aten, backend}: read back from ATen, for the device's backend, too ("ieee", "tf32", "bf16")
//   fingerprint         {float32, autocast}: {size, relative_error, precision, kernel} of a size x size product on the
//                       device (512 on a CPU, 2048 on a GPU) against the CPU's in float64; the error is null where it
//                       is not finite
//   logits              {dtype, columns} as the loss receives them
//   residual            {dtype: count} of what embedding, LayerNorm and the additions to the residual stream return
//   operations          {phase: dispatched operations}
//   update_operations   {name: count} of the optimizer
//   backward_nodes      {autograd node: count}
//   determinism         {algorithms, cudnn_deterministic, cudnn_benchmark,
//                       refuses: an operation without a deterministic way, cublas_workspace: the variable or null}
//   matrix_products     {library call: count} of the step; null on a GPU
//   cuda_calls          of one step: {kernel_launches, graph_launches, host_waits, calls: {name: count}}, or
//                       {unavailable: why}; null on a CPU
//   refault             {bytes, faults}: page faults when 64 MiB are freed and allocated again
//   loss_scale          of the gradient scaler
//   memory              {weights_bytes, gradients_bytes, optimizer_bytes,
//                       weight_copies_bytes: autocast's 16-bit copies of weights that a forward pass of one
//                       micro-step leaves for backward, activations_bytes: what else it leaves}
nlohmann::json observe(model::Trainer& trainer);

// By mantissa bits: "float32", "tf32 or float16", "bfloat16", "wrong", from the relative error (Frobenius norms) of a
// product of normal matrices. Rounding the factors gives the same error at any size; float32's own grows with the terms
// that are added up. Computed for 512 and 2048 terms (tests/ablations/run/proof_test.cpp repeats it):
//   float32            2.4e-7 in blocks, at most 4.1e-7 (512 terms) and 8.1e-7 (2048) in one chain
//   TF32, float16      2.9e-4 rounded, 3.6e-4 with the result rounded, too, 7.7e-4 cut off to TF32, as tensor cores may
//   bfloat16           2.4e-3 rounded, 2.9e-3 with the result rounded, too, 6.2e-3 cut off
//   8 bits (e4m3)      3.7e-2 rounded: no number type of any recipe, so "wrong"
std::string precision_of(double relative_error);

}  // namespace ablations
