#include "ablations/study/judge.h"

#include "ablations/study/guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ablations {

using harness::Json;

namespace {

// Proofs of the rung's runs; a failed one of any run stands for all.
Json combined_proofs(const RunsByRepeat& runs) {
  Json combined = runs.begin()->second.proofs;
  for (const auto& [repeat, run] : runs) {
    for (size_t i = 0; i < std::min(combined.size(), run.proofs.size()); ++i) {
      if (!run.proofs[i].at("passed").get<bool>() && combined[i].at("passed").get<bool>()) combined[i] = run.proofs[i];
    }
  }
  return combined;
}

}  // namespace

void judge_alone(const RunsByRepeat& runs, Json& rung) {
  rung["proofs"] = combined_proofs(runs);
  for (const Json& proof : rung["proofs"]) {
    if (proof.at("passed").get<bool>()) continue;
    rung["status"] = "unproven";
    rung["reason"] = fmt::format("{}: expected {}; observed {}", proof.at("field").get<std::string>(),
                                 proof.at("expected").get<std::string>(), proof.at("observed").get<std::string>());
    return;
  }
  for (const auto& [repeat, run] : runs) {
    const auto bad = std::ranges::find_if_not(run.losses, [](double loss) { return std::isfinite(loss); });
    if (bad == run.losses.end()) continue;
    rung["status"] = "void";
    rung["reason"] = fmt::format("the loss of step {} is not finite", bad - run.losses.begin() + 1);
  }
}

void judge_by_reference(const Plan& plan, size_t index, size_t reference, const Measured& measured, Json& rungs) {
  Json& rung = rungs[index];
  if (rung.at("status") == "unproven") return;
  const RunsByRepeat& reference_runs = measured.runs_of[reference];
  if (reference_runs.empty()) {
    const bool waits = rungs[reference].at("status") == "missing";
    rung["status"] = waits ? "missing" : "void";
    rung["reason"] = fmt::format("the reference rung has no run {}to compare losses with", waits ? "yet " : "");
    return;
  }
  const Guard verdict = guard_rung(plan.rungs[index], measured.runs_of[index], plan.rungs[reference], reference_runs);
  rung["guard"] = to_json(verdict, reference);
  if (!verdict.passed) {
    rung["status"] = "void";
    rung["reason"] = verdict.message;
  }
}

}  // namespace ablations
