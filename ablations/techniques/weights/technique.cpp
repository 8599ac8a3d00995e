// Which weights are trained, and where their gradients are.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/fused.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

Text weights_text();

Proof prove_weights(const Recipe& recipe, const RunFacts& facts) {
  const Observations& seen = facts.observations;
  const int64_t accumulated = nodes_of(seen.backward_nodes, "AccumulateGrad");
  const Observations::Weights weights = seen.weights.value_or(Observations::Weights());
  const int64_t in_place = weights.gradients_in_place, low = count(weights.types, "BFloat16");
  int64_t all = 0;
  for (const auto& [type, parameters] : weights.types) all += parameters;
  const std::string observed =
      fmt::format("{} gradients accumulated by autograd; of {} parameters {} have their gradient in place, {} are bf16",
                  accumulated, all, in_place, low);
  if (recipe.weights == Weights::separate) {
    // Data parallel ranks keep gradients in the buckets in which they are reduced.
    const bool buckets = recipe.data_parallel == Parallel::ddp;
    return {"weights", accumulated > 0 && (in_place == 0 || buckets) && low == 0,
            buckets ? "autograd accumulates gradients; no parameter is bf16"
                    : "autograd accumulates gradients, none is written in place; no parameter is bf16",
            observed};
  }
  const bool split = recipe.autocast == Autocast::bf16;
  return {"weights", accumulated == 0 && all > 0 && in_place == all && (low > 0) == split,
          fmt::format("autograd accumulates nothing; every gradient is written in place; {} parameter is bf16",
                      split ? "some" : "no"),
          observed};
}

}  // namespace

Technique weights() {
  return {
      .field = "weights",
      .optimizations = {{.name = "master_weights",
                         .title = "master weights, static gradients",
                         .summary = "Gradients go straight into buffers that stay from step to step, and one pass "
                                    "clips them and updates the weights. Under bf16 autocast the products' weights are "
                                    "bf16 themselves, and the 16 bits that they lack lie beside them.",
                         .needs = {"fused_norm", "fused_mlp", "fused_loss"},
                         .edit = [](Recipe& r, const harness::Machine&) { r.weights = Weights::master; },
                         .text = weights_text(),
                         .rewritten = "2026-11-27"}},
      .obstacle = [](const Recipe& recipe, const harness::Machine&) -> std::string {
        return recipe.weights == Weights::master ? master_weights_obstacle(recipe) : "";
      },
      .prove = prove_weights,
  };
}

// ---- In words

namespace {

Text weights_text() {
  return {
      .mechanism = R"(Mixed precision trains float32 weights and multiplies bf16 ones. Autocast computes the bf16 copies
anew in each micro-step. But a float32 number is a bf16 number and 16 bits more. Here the two halves are stored apart.
Matmuls read the first half as it is, on a GPU also of their biases. The optimizer joins both, updates the weight, and
splits it again; nothing is lost:

    weight       0x3DCCCCCD     0.1
    bf16         0x3DCD         0.10009765625, the nearest bf16
    remainder    -0x3333        what to add to the bits 0x3DCD0000

Gradients have buffers that stay: a step's first backward pass writes into them, further micro-steps add. On a GPU one
launch finishes the gradients of all biases and LayerNorms. The head writes the gradient of the weight that it shares
with the embedding, which adds the rows of the step's tokens. PyTorch materializes a matrix of all rows, 155 MB, for
each of the two, and adds them. Bytes for each weight of a matmul, under bf16 autocast:

                          separate    master
    copy to bf16           4 + 2        -
    gradients' norm          4          4
    clipping and AdamW      32         28      PyTorch's writes the clipped gradient back)",
      .faster = R"(None of this computes much; its time is that of its memory traffic. For GPT-2 124M the copies read
494 MB and write 247 MB in each micro-step, and the embedding's matrix is about 600 MB of traffic in each. The clipped
gradients are 498 MB in each step.)",
      .costs = R"(Under bf16 autocast no copies of the weights are kept for the backward pass: 170 MB, because the
fused head keeps none of its own. The peak need not fall: on an H200 at B=16 it rose from 7.34 to 7.43 GiB. All weights
must belong to operations of our own, because autograd sees no gradient of theirs.)",
      .no_help =
          R"(In float32 there is no copy to save. What is saved does not grow with B and T, so its share of a step
falls with them.)",
      .pytorch = R"(# PyTorch has no switch for it. TransformerEngine keeps such remainders (store_param_remainders),
# and writes gradients into such buffers, as Megatron does (main_grad))",
      .proven = R"(Autograd's graph has no node that accumulates a gradient. A step wrote every parameter's
gradient into the memory that held it in the step before. Under bf16 autocast some parameters are bf16, else none.)",
      .alone = R"(ladder run --ladder gpt2-cpu-fused --rung fused_loss
ladder run --ladder gpt2-cpu-fused --rung master_weights)"};
}

}  // namespace

}  // namespace ablations
