// Whether several ranks share each batch, and the mean of their gradients.
#include "ablations/techniques/technique.h"

#include "text/figures.h"

#include <fmt/format.h>

#include <cstdlib>

namespace ablations {

using namespace model;

namespace {

Proof prove_data_parallel(const Recipe& recipe, const RunFacts& facts) {
  const auto seen = facts.observations.all_reduces.value_or(Observations::AllReduces());
  const std::string observed =
      fmt::format("{} of {} in a step; its gradients have {}", number_of(seen.calls, "all-reduce"),
                  number_of(seen.bytes, "byte"), number_of(seen.gradient_bytes, "byte"));
  if (recipe.data_parallel == Parallel::none) {
    return {"data_parallel", facts.observations.all_reduces && seen.calls == 0, "a step reduces nothing over ranks",
            observed};
  }
  constexpr int64_t bytes_beside = 8;  // the loss, and whether a rank wants to stop
  return {"data_parallel",
          seen.gradient_bytes > 0 && seen.calls >= 2 && seen.bytes == seen.gradient_bytes + bytes_beside,
          "a step reduces all gradients over the ranks, each once, and 8 bytes of loss and interrupts", observed};
}

std::string obstacle_to_data_parallel(const Recipe& recipe, const harness::Machine&) {
  if (recipe.data_parallel == Parallel::none || std::getenv("WORLD_SIZE") != nullptr) return "";
  return "data_parallel ddp needs ranks, which torchrun or a script for Slurm starts: torchrun --nproc-per-node 2 "
         "--no-python ladder train ...";
}

}  // namespace

Technique data_parallel() {
  return {
      .field = "data_parallel",
      .optimizations = {{.name = "ddp",
                         .title = "data parallel (DDP)",
                         .summary = "Several processes, the ranks, each work on B sequences of their own. All take the "
                                    "same step, with the mean of their gradients, which is taken while the backward "
                                    "pass goes on.",
                         .edit = [](Recipe& r, const harness::Machine&) { r.data_parallel = Parallel::ddp; }}},
      .obstacle = obstacle_to_data_parallel,
      .prove = prove_data_parallel,
  };
}

}  // namespace ablations
