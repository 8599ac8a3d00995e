// How AdamW goes over the weights.
#include "ablations/techniques/technique.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

Proof prove_optimizer(const Recipe& recipe, const RunFacts& facts) {
  const Counts& operations = facts.observations.update_operations;
  const int64_t fused = count(operations, "aten::_fused_adamw_");
  const int64_t foreach = count(operations, "aten::_foreach_addcdiv_");
  const int64_t single = count(operations, "aten::addcdiv_");
  const int64_t own = count(operations, "model::adamw");
  const std::string observed =
      fmt::format("{} _fused_adamw_, {} _foreach_addcdiv_, {} addcdiv_ in an update", fused, foreach, single);
  if (recipe.weights == Weights::master) {
    return {"optimizer", own == 1 && fused == 0 && foreach == 0 && single == 0,
            "one operation for all master weights, none of ATen's", fmt::format("{} of our own, {}", own, observed)};
  }
  switch (recipe.optimizer) {
    case Optimizer::loop:
      return {"optimizer", fused == 0 && foreach == 0 && single > 2, "one addcdiv_ per tensor, nothing fused",
              observed};
    case Optimizer::foreach:
      return {"optimizer", fused == 0 && foreach == 2, "one _foreach_addcdiv_ per parameter group, nothing fused",
              observed};
    case Optimizer::fused:
      return {"optimizer", fused == 2 && foreach == 0 && single == 0 && own == 0,
              "one _fused_adamw_ per parameter group, nothing else", observed};
  }
  return {"optimizer", false, "", observed};
}

// AdamW's denominators, of the largest tensor or of all of them; as many numerators if its factors are on the device.
void amend_optimizer(const StepSizes& s, StepTable& table) {
  if (s.recipe.optimizer == Optimizer::fused || s.recipe.weights == Weights::master) return;
  const bool on_device = s.recipe.execution == Execution::graph || s.recipe.autocast == Autocast::fp16;
  const double at_once = s.recipe.optimizer == Optimizer::foreach ? s.parameters : s.rows * s.C;
  table.update.working = f32 * at_once * (on_device ? 2 : 1);
}

}  // namespace

Technique optimizer() {
  return {
      .field = "optimizer",
      .optimizations =
          {{.name = "foreach",
            .title = "foreach AdamW",
            .summary = "The optimizer works on lists of tensors instead of one tensor after another, which saves "
                       "kernel launches. The arithmetic is the same.",
            .excludes = {"fused_adamw"},
            .edit = [](Recipe& r, const harness::Machine&) { r.optimizer = Optimizer::foreach; }},
           {.name = "fused_adamw",
            .title = "fused AdamW",
            .summary = "One operation per parameter group reads gradient, moments and weight once and writes them "
                       "once. Clipping the gradients happens in the same pass.",
            .edit = [](Recipe& r, const harness::Machine&) { r.optimizer = Optimizer::fused; }}},
      .amend = amend_optimizer,
      .prove = prove_optimizer,
  };
}

}  // namespace ablations
