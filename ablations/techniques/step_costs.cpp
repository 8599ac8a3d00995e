#include "ablations/techniques/step_costs.h"

namespace ablations {

using namespace model;

std::vector<Cost> step_costs(const Config& config, const Recipe& recipe, int64_t B, int64_t T, int64_t accumulation) {
  const StepTable table = step_table({config, recipe, B, T});
  std::vector<Cost> costs;
  const auto steps = static_cast<double>(accumulation);
  for (const bool forward : {true, false}) {
    for (const StepRow& row : table.rows) {
      const auto times = static_cast<double>(row.times);
      // Gradients of weights are written by each micro-step, in the pass that makes them, and read by all but the
      // first.
      const double written = forward == row.is_backward_too ? steps : 0, read = forward ? 0 : steps - 1;
      const double flops = forward ? row.flops : row.is_backward_too ? 0 : backward_flops(row.flops);
      costs.push_back({.phase = forward ? "forward" : "backward",
                       .op = row.op,
                       .part = row.part,
                       .calls = row.times * accumulation,
                       .flops = times * steps * flops,
                       .bytes = times * (steps * (forward ? row.forward_bytes : row.backward_bytes) +
                                         (written + read) * f32 * row.gradients)});
    }
  }
  costs.push_back({"clip", "clip", "", 1, 0, table.clip.forward_bytes});
  costs.push_back({"update", "adamw", "", 1, 0, table.update.forward_bytes});
  return costs;
}

}  // namespace ablations
