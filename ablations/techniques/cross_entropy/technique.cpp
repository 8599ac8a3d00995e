// How the loss and the gradient of the logits are computed.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/cross_entropy/chunks.h"
#include "ablations/techniques/fused.h"
#include "text/figures.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

Proof prove_loss(const Recipe& recipe, const RunFacts& facts) {
  const Counts& nodes = facts.observations.backward_nodes;
  const int64_t aten = count(nodes, "NllLossBackward0"), in_place = nodes_of(nodes, "InPlaceCrossEntropy"),
                fused = nodes_of(nodes, "FusedHeadLoss");
  std::string observed = fmt::format("{} of ATen's loss, {} of the one in place", number_of(aten, "node"), in_place);
  if (fused > 0 || recipe.cross_entropy == CrossEntropy::fused) observed += fmt::format(", {} of the fused one", fused);
  const bool right = (aten > 0) == (recipe.cross_entropy == CrossEntropy::aten) &&
                     (in_place > 0) == (recipe.cross_entropy == CrossEntropy::in_place) &&
                     (fused > 0) == (recipe.cross_entropy == CrossEntropy::fused);
  switch (recipe.cross_entropy) {
    case CrossEntropy::aten:
      return {"cross_entropy", right, "ATen's nodes only", observed};
    case CrossEntropy::in_place:
      return {"cross_entropy", right, "nodes of the loss in place only", observed};
    case CrossEntropy::fused:
      break;
  }
  return {"cross_entropy", right, "nodes of the fused loss only", observed};
}

// In place: one matrix, on a CPU of float32. Beside it the logits and, on a CPU, their conversion.
// Fused: reads x, wte and targets, writes the loss and, in the same pass, the gradients of x and wte. What it keeps is
// the gradient of x. Some rows of logits exist at once.
void amend_cross_entropy(const StepSizes& s, StepTable& table) {
  StepRow& loss = table.at("cross_entropy");
  if (s.recipe.cross_entropy == CrossEntropy::in_place) {
    const double logits = s.BT * s.rows;
    loss.matrices = logits * (s.on_cpu ? f32 : s.low);
    loss.working = logits * (s.low + (s.on_cpu && s.casts ? f32 : 0));
  }
  if (s.recipe.cross_entropy != CrossEntropy::fused) return;
  const StepRow& head = table.at("head");
  const double row_bytes = s.rows * s.low;
  const int64_t chunk = head_loss_rows(static_cast<int64_t>(s.BT), static_cast<int64_t>(row_bytes),
                                       head_loss_chunk_bytes(/*on_cuda=*/!s.on_cpu));
  table.fuse({"head", "cross_entropy"},
             {.op = "head_loss",
              .part = "head_loss",
              .flops = head.flops + backward_flops(head.flops),
              .forward_bytes = 2 * s.BTC * s.normed + s.held * s.rows * s.C + i64 * s.BT + f32,
              .gradients = head.gradients,
              .is_backward_too = true,
              .kept = head.kept,
              .working = row_bytes * static_cast<double>(chunk)});
}

}  // namespace

Technique cross_entropy() {
  return {
      .field = "cross_entropy",
      .optimizations =
          {{.name = "in_place_loss",
            .title = "in-place loss",
            .summary = "The gradient of the loss is written over the log-probabilities of the forward pass, number by "
                       "number. PyTorch's own steps lead there by further matrices of B x T x V numbers, in float32 "
                       "under autocast.",
            .edit = [](Recipe& r, const harness::Machine&) { r.cross_entropy = CrossEntropy::in_place; },
            .replaces = {"cross_entropy"},
            .by = "in_place"},
           {.name = "fused_loss",
            .title = "fused head + loss",
            .summary = "The last matrix product and the loss are one operation, which does some rows at a time: their "
                       "logits become their own gradient, and the products that need it follow at once. The matrix of "
                       "all logits never exists.",
            .edit = [](Recipe& r, const harness::Machine&) { r.cross_entropy = CrossEntropy::fused; },
            .replaces = {"head_loss"},
            .by = "fused"}},
      .obstacle = [](const Recipe& recipe, const harness::Machine& machine) -> std::string {
        return recipe.cross_entropy == CrossEntropy::fused ? fused_obstacle(recipe, machine) : "";
      },
      .amend = amend_cross_entropy,
      .prove = prove_loss,
  };
}

}  // namespace ablations
