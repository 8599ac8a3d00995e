// What the residual stream is kept in.
#include "ablations/techniques/technique.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ablations {

using namespace model;

namespace {

Proof prove_residual(const Recipe& recipe, const RunFacts& facts) {
  const Counts found = facts.observations.residual.value_or(Counts());
  const bool low = recipe.residual == Residual::autocast;
  const std::string dtype = !low || recipe.autocast == Autocast::off ? "Float"
                            : recipe.autocast == Autocast::bf16      ? "BFloat16"
                                                                     : "Half";
  std::vector<std::string> observed;
  for (const auto& [name, tensors] : found) observed.push_back(fmt::format("{} {}", tensors, name));
  return {"residual", found.size() == 1 && found.contains(dtype),
          fmt::format("{} from the embedding, every LayerNorm and every addition", dtype),
          fmt::format("{} tensors of the residual stream", fmt::join(observed, ", "))};
}

}  // namespace

Technique residual() {
  return {
      .field = "residual",
      .optimizations = {{.name = "residual16",
                         .title = "16-bit residual stream",
                         .summary = "What the blocks add to one another, and LayerNorm with it, stays in autocast's "
                                    "16-bit type, where PyTorch's autocast keeps float32: half the bytes, and no "
                                    "conversion before each matrix product.",
                         .edit =
                             [](Recipe& r, const harness::Machine&) {
                               r.residual = r.autocast == Autocast::off ? Residual::float32 : Residual::autocast;
                             }}},
      .obstacle = [](const Recipe& recipe, const harness::Machine&) -> std::string {
        const bool impossible = recipe.residual == Residual::autocast && recipe.autocast == Autocast::off;
        return impossible ? "residual autocast needs autocast bf16 or fp16" : "";
      },
      .prove = prove_residual,
  };
}

}  // namespace ablations
