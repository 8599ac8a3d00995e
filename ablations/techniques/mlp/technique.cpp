// How the two products of a block's MLP and the GELU between them are made.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/fused.h"
#include "text/figures.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

Proof prove_mlp(const Recipe& recipe, const RunFacts& facts) {
  const Counts& nodes = facts.observations.backward_nodes;
  const int64_t aten = count(nodes, "GeluBackward0"), fused = nodes_of(nodes, "FusedMlp");
  const std::string observed = fmt::format("{} of ATen's GELU, {} of the fused MLP", number_of(aten, "node"), fused);
  const int64_t wanted = facts.attentions;
  if (recipe.mlp == Mlp::aten) {
    return {"mlp", aten == wanted && fused == 0, fmt::format("{} nodes of ATen's GELU", wanted), observed};
  }
  return {"mlp", aten == 0 && fused == wanted, fmt::format("{} nodes of the fused MLP", wanted), observed};
}

// On a CPU GELU's result is written once more in backward, and not kept. On a GPU the first product writes it beside
// GELU's argument, which is not read again.
void amend_mlp(const StepSizes& s, StepTable& table) {
  if (s.recipe.mlp == Mlp::aten) return;
  const StepRow &fc = table.at("c_fc"), &gelu = table.at("gelu"), &proj = table.at("mlp_proj");
  const double pass = 4 * s.BTC * s.low;
  table.fuse({"c_fc", "gelu", "mlp_proj"},
             {.op = "mlp",
              .part = "mlp",
              .times = s.layers,
              .flops = fc.flops + proj.flops,
              .forward_bytes = fc.forward_bytes + gelu.forward_bytes + proj.forward_bytes - (s.on_cpu ? 0 : pass),
              .backward_bytes = fc.backward_bytes + gelu.backward_bytes + proj.backward_bytes + (s.on_cpu ? pass : 0),
              .gradients = fc.gradients + proj.gradients,
              .kept = fc.kept + gelu.kept + proj.kept - (s.on_cpu ? pass : 0),
              .working = gelu.working});
}

}  // namespace

Technique mlp() {
  return {
      .field = "mlp",
      .optimizations =
          {{.name = "fused_mlp",
            .title = "fused MLP",
            .summary = "Bias and GELU are one pass between the MLP's two matrix products, and so are their gradients. "
                       "On a GPU the products make them where they write their results. On a CPU GELU's result is "
                       "computed once more in the backward pass instead of being kept.",
            .edit = [](Recipe& r, const harness::Machine&) { r.mlp = Mlp::fused; },
            .replaces = {"mlp"},
            .by = "fused"}},
      .obstacle = [](const Recipe& recipe, const harness::Machine& machine) -> std::string {
        return recipe.mlp == Mlp::fused ? fused_obstacle(recipe, machine) : "";
      },
      .amend = amend_mlp,
      .prove = prove_mlp,
  };
}

}  // namespace ablations
