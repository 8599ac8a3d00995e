// How a step's operations reach the device: one by one, or as a captured graph.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/calls.h"
#include "text/figures.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

Proof prove_execution(const Recipe& recipe, const RunFacts& facts) {
  const Observations& seen = facts.observations;
  const int64_t of_model = count(seen.operations, "forward") + count(seen.operations, "backward");
  std::string observed = fmt::format("{} dispatched in a step, {} of them in forward and backward",
                                     number_of(count(seen.operations, "total"), "operation"), of_model);
  const bool eager = recipe.execution == Execution::eager;
  std::string expected = eager ? "forward and backward are dispatched operation by operation"
                               : "a step dispatches nothing of forward and backward";
  bool launches_fit = true;  // stays true if launches were not counted
  if (const StepCalls* calls = counted_calls(seen)) {
    const int64_t kernels = calls->kernel_launches.value_or(0), graphs = calls->graph_launches.value_or(0);
    launches_fit = eager ? graphs == 0 && kernels > 0 : graphs == 1 && kernels == 0;
    expected += eager ? "; no graph is launched" : "; it is one graph launch and no other kernel launch";
    observed += fmt::format("; {} kernel {}, {} graph {}", kernels, kernels == 1 ? "launch" : "launches", graphs,
                            graphs == 1 ? "launch" : "launches");
    if (!launches_fit) {
      const harness::CudaCalls named = by_name(*calls);
      auto launches = named.kernel_launches();
      launches.merge(named.graph_launches());
      // If no call is known as a launch, the launch must be among the other calls.
      observed += launches.empty() ? "; calls: " + in_words(named.calls) : ": " + in_words(launches);
    }
  } else if (recipe.device == Device::cuda && seen.cuda_calls) {
    observed += "; launches were not counted: " + seen.cuda_calls->unavailable.value_or("");
  }
  return {"execution", (of_model > 0) == eager && launches_fit, expected, observed};
}

}  // namespace

Technique execution() {
  return {
      .field = "execution",
      .optimizations = {{.name = "graph",
                         .title = "graph capture",
                         .summary = "The whole step is recorded once as a CUDA graph and replayed with a single "
                                    "launch; its kernels stay the same. It gains at small batches, where the host "
                                    "takes longer to launch a step's kernels than the GPU to run them; most of "
                                    "torch.compile's gain comes from fused kernels, not from fewer launches.",
                         .needs = {"gpu"},
                         .edit = [](Recipe& r, const harness::Machine&) { r.execution = Execution::graph; }}},
      .obstacle = [](const Recipe& recipe, const harness::Machine&) -> std::string {
        const bool impossible = recipe.execution == Execution::graph && recipe.device == Device::cpu;
        return impossible ? "execution graph needs device cuda" : "";
      },
      .prove = prove_execution,
  };
}

}  // namespace ablations
