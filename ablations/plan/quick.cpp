#include "ablations/plan/quick.h"

#include <algorithm>

namespace ablations {

void make_quick(Plan& plan) {
  plan.quick = Quick{.repeats = std::max(plan.repeats, 2 * quick_repeats), .left_out = {}};
  const auto is_planned = [&](size_t i) { return plan.rungs[i].status == Rung::Status::planned; };
  size_t last = plan.rungs.size() - 1;
  while (last > plan.reference && !is_planned(last)) --last;
  for (size_t i = plan.reference + 1; i < last; ++i) {
    if (!is_planned(i)) continue;
    plan.rungs[i].status = Rung::Status::not_measured;
    plan.rungs[i].reason = "left out by --quick";
    plan.quick->left_out.push_back(i);
  }
  plan.repeats = quick_repeats;
  plan.runs = interleave(plan.rungs, plan.repeats, plan.order_seed);
}

Plan whole_plan(const Plan& quick) {
  Plan plan = quick;
  for (const size_t i : quick.quick->left_out) {
    plan.rungs[i].status = Rung::Status::planned;
    plan.rungs[i].reason.clear();
  }
  plan.repeats = quick.quick->repeats;
  plan.quick.reset();
  for (const PlannedRun& run : interleave(plan.rungs, plan.repeats, plan.order_seed)) {
    if (run.repeat >= quick.repeats) plan.runs.push_back(run);
  }
  return plan;
}

}  // namespace ablations
