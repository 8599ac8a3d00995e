// Whether every run of a recipe computes the same losses to the bit.
#include "ablations/techniques/technique.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

Proof prove_determinism(const Recipe& recipe, const RunFacts& facts) {
  const auto& seen = facts.observations.determinism;
  const bool on_cuda = recipe.device == Device::cuda;
  std::string observed = fmt::format("ATen's deterministic algorithms are {}; an operation that has none {}",
                                     seen.algorithms ? "on" : "off", seen.refuses ? "is refused" : "runs");
  if (!recipe.deterministic) {
    return {"deterministic", !seen.algorithms && !seen.refuses,
            "ATen's deterministic algorithms are off; an operation that has none runs", observed};
  }
  const bool cudnn = seen.cudnn_deterministic && !seen.cudnn_benchmark;
  const std::string workspace = seen.cublas_workspace.value_or("not set");
  observed += fmt::format("; cuDNN {}", cudnn ? "deterministic, without trying out" : "free to choose");
  if (on_cuda) observed += fmt::format("; CUBLAS_WORKSPACE_CONFIG {}", workspace);
  return {"deterministic",
          seen.algorithms && seen.refuses && cudnn && (!on_cuda || is_deterministic_workspace(workspace)),
          fmt::format("ATen's deterministic algorithms are on; an operation that has none is refused; cuDNN "
                      "deterministic, without trying out{}",
                      on_cuda ? "; CUBLAS_WORKSPACE_CONFIG :4096:8 or :16:8" : ""),
          observed};
}

}  // namespace

Technique determinism() { return {.field = "deterministic", .prove = prove_determinism}; }

}  // namespace ablations
