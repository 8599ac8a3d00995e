// How the residual stream is added to and normalized.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/fused.h"
#include "text/figures.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

Proof prove_norm(const Recipe& recipe, const RunFacts& facts) {
  const Counts& nodes = facts.observations.backward_nodes;
  const int64_t aten = count(nodes, "NativeLayerNormBackward0"), fused = nodes_of(nodes, "FusedAddNorm");
  const std::string observed =
      fmt::format("{} of ATen's LayerNorm, {} of the fused one", number_of(aten, "node"), fused);
  if (recipe.norm == Norm::aten) return {"norm", aten > 0 && fused == 0, "ATen's LayerNorm only", observed};
  const int64_t least = 2 * facts.attentions + 1;
  return {"norm", aten == 0 && fused >= least, fmt::format("no node of ATen's, at least {} fused ones", least),
          observed};
}

// Each reads the stream, what is added to it, weight and bias. It writes the sum and, in the products' type, the
// normalized rows. Backward reads the sum and both gradients and writes the stream's. If what was added has another
// type, it writes that gradient, too. The first of a step has nothing to add.
void amend_norm(const StepSizes& s, StepTable& table) {
  if (s.recipe.norm == Norm::aten) return;
  for (const char* part : {"ln_1", "ln_2", "ln_f"}) {
    StepRow& row = table.at(part);
    const auto times = static_cast<double>(row.times);
    const double added = row.part == "ln_1" ? (times - 1) / times : 1;
    row.op = "add_norm";
    row.forward_bytes = s.BTC * (s.stream + s.low + added * (s.stream + s.low)) + f32 * 2 * s.C;
    row.backward_bytes =
        s.BTC * (2 * s.stream + s.low + added * (s.stream + (s.low == s.stream ? 0 : s.low))) + f32 * s.C;
  }
  std::erase_if(table.rows, [](const StepRow& row) { return row.part == "residual"; });
}

}  // namespace

Technique norm() {
  return {
      .field = "norm",
      .optimizations =
          {{.name = "fused_norm",
            .title = "fused residual + LayerNorm",
            .summary = "A block's result is added to the residual stream and normalized in one pass over the memory, "
                       "and the normalized numbers are written in the type that the next matrix product reads. PyTorch "
                       "makes three passes of it.",
            .edit = [](Recipe& r, const harness::Machine&) { r.norm = Norm::fused; },
            .replaces = {"add_norm"},
            .by = "fused"}},
      .obstacle = [](const Recipe& recipe, const harness::Machine& machine) -> std::string {
        return recipe.norm == Norm::fused ? fused_obstacle(recipe, machine) : "";
      },
      .amend = amend_norm,
      .prove = prove_norm,
  };
}

}  // namespace ablations
