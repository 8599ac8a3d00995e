// The memory of a step, counted from shapes before anything runs. What is counted:
//
//   weights      4 bytes each, with the rows that pad the vocabulary. Under bf16 autocast the products' master weights
//                are split, on a GPU with their biases: 2 bytes are read, and 2 are the rest (their remainders).
//   gradients    4 bytes for each weight, and AdamW's two moments 8 (Loshchilov and Hutter 2019, algorithm 2)
//   copies       of the weights in autocast's type; master weights need none. fp8 has two of a byte for each number
//   activations  what each operation keeps for its backward pass, as ops.h and the fused operations hand it on: for a
//                token of one layer 2 C numbers of the residual stream, and 14 C that products, attention and GELU read
//                (10 C where a fused MLP makes GELU's result again), and two float32 numbers of each LayerNorm
//   attention    If it is written out, each layer keeps its softmax, T x T for each head, and has three such matrices
//                while it computes. FlashAttention keeps none (Dao et al. 2022), but the logarithm of each softmax's
//                sum, which is among the activations.
//   logits       with their log-probabilities. ATen's loss makes two more float32 matrices of that size; under CUDA's
//                autocast it keeps them in both types and makes one more. The loss in place makes none, and the fused
//                loss has one chunk (head_loss_chunk_bytes).
//
// They are never all there. The peak is at one of four moments, because between them memory grows or falls evenly,
// layer by layer. On a GPU the tensors at the peak are what PyTorch counts as allocated, within 3 %. The tests' fake
// device counts them (tests/program/test_fake_device.py).
//
// What comes on top is no count. On a CPU it is fitted to runs: the total is within 14 % of the peaks in
// results/evidence. This holds for a model of two layers, too (tests/ablations/profile/estimate_test.cpp):
//
//   process      0.4 GiB on a CPU, mostly PyTorch's libraries; 0.48 if the heap keeps what is freed. On a GPU 1 GiB for
//                the context, kernels and workspaces: a guess, because no GPU has been measured yet.
//   allocator    What lies between the tensors. On a CPU the heap has no room for all of backward's tensors where
//                forward's were, nor the other way round. This takes 0.4 of what the smaller pass needs beside the
//                weights. A heap that keeps what is freed (host_memory keep) takes more. It has cut up the places of
//                the last step's gradients before this step makes its own: as many bytes as products write gradients.
//                Between the matrices that attention keeps, it leaves gaps of two more in each layer, less what else
//                the layer keeps there. It may cut up the place of the fused loss's chunk: half a chunk is counted.
//                Attention's matrices, or the logits, may be more than all else that forward finds and leaves. Then a
//                run takes up to three times what is counted here (is_least). On a GPU 0.2 GiB, and one more matrix of
//                logits as the loss takes them. PyTorch's allocator reserves as much on the fake device, within 20 %.
#pragma once

#include "model/config.h"
#include "model/recipe.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace ablations {

// When a step may hold most. `loss`: in the loss, forward and backward. `backward_begin`: before the last layer's
// backward pass. `backward_end`: after the embedding's. `update`: in the optimizer.
enum class Moment { loss, backward_begin, backward_end, update };
constexpr auto names_of(Moment) {
  return std::to_array<std::string_view>({"loss", "backward_begin", "backward_end", "update"});
}
constexpr std::array all_moments{Moment::loss, Moment::backward_begin, Moment::backward_end, Moment::update};

struct StepMemory {
  // In bytes, by what they are for.
  struct Parts {
    double weights = 0, remainders = 0, gradients = 0, optimizer = 0, weight_copies = 0;
    double activations = 0;  // without the two below
    double attention = 0, logits = 0;
    double working = 0;  // for a while: of one layer, of the embedding's gradient or of the update
    double allocator = 0, process = 0;

    [[nodiscard]] double tensors() const;  // what PyTorch counts as allocated: all but the last two
    [[nodiscard]] double total() const;
  };

  std::array<Parts, all_moments.size()> parts;  // by Moment
  double left_by_forward = 0;                   // what a record counts as activations
  bool is_least = false;                        // a run may take three times as much, more or less from step to step

  [[nodiscard]] const Parts& at(Moment moment) const { return parts[static_cast<size_t>(moment)]; }
  [[nodiscard]] Moment peak() const;
  [[nodiscard]] double total() const { return at(peak()).total(); }  // of the process on a CPU; of the device on a GPU
  [[nodiscard]] Parts largest() const;                               // of each part, whenever that is
};

// The one list of parts, each with a few words: visit("weights", parts.weights, "...").
template <class Parts, class Visitor>
void visit_parts(Parts& parts, Visitor&& visit) {
  visit("weights", parts.weights, "as products read them, padding rows included");
  visit("remainders", parts.remainders, "the bits that split weights lack of float32");
  visit("gradients", parts.gradients, "float32");
  visit("optimizer", parts.optimizer, "AdamW's two moments, float32");
  visit("weight_copies", parts.weight_copies, "autocast's, or fp8's");
  visit("activations", parts.activations, "what forward leaves for backward");
  visit("attention", parts.attention, "T x T matrices");
  visit("logits", parts.logits, "and what the loss makes of them");
  visit("working", parts.working, "one layer's, the embedding's or the update's");
  visit("allocator", parts.allocator, "between the tensors");
  visit("process", parts.process, "PyTorch and its libraries, a GPU's context");
}

// For `accumulation` micro-steps of B sequences of T tokens. More than two micro-steps take what two take.
StepMemory step_memory(const model::Config& config, const model::Recipe& recipe, int64_t B, int64_t T,
                       int64_t accumulation = 1);

// The largest B, at most 65536, whose step takes no more than `bytes`; 0 where not even one sequence does.
int64_t largest_batch(const model::Config& config, const model::Recipe& recipe, int64_t T, int64_t accumulation,
                      double bytes);

}  // namespace ablations
