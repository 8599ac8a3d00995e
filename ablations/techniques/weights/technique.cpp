// Which weights are trained, and where their gradients are.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/fused.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

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
                         .edit = [](Recipe& r, const harness::Machine&) { r.weights = Weights::master; }}},
      .obstacle = [](const Recipe& recipe, const harness::Machine&) -> std::string {
        return recipe.weights == Weights::master ? master_weights_obstacle(recipe) : "";
      },
      .prove = prove_weights,
  };
}

}  // namespace ablations
