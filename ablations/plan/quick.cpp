#include "ablations/plan/quick.h"

#include <algorithm>

namespace ablations {

void make_quick(Plan& plan, const std::vector<std::string>& rungs) {
  const auto is_planned = [](const Rung& rung) { return rung.status == Rung::Status::planned; };
  std::vector<size_t> kept;
  size_t last = plan.reference;
  for (size_t i = plan.reference + 1; i < plan.rungs.size(); ++i) {
    if (!is_planned(plan.rungs[i])) continue;
    last = i;
    if (std::ranges::find(rungs, plan.rungs[i].optimization) != rungs.end()) kept.push_back(i);
  }
  if (kept.empty()) kept.push_back(last);
  // Two of them are the quick one's.
  plan.quick = Quick{.repeats = std::max(plan.repeats, 2 * quick_repeats), .left_out = {}};
  for (size_t i = plan.reference + 1; i < plan.rungs.size(); ++i) {
    if (!is_planned(plan.rungs[i]) || std::ranges::find(kept, i) != kept.end()) continue;
    plan.rungs[i].status = Rung::Status::not_measured;
    plan.rungs[i].reason = "left out by --quick; it is on in the rungs after it";
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
