#include "study/judge.h"

#include "study/command_guard.h"
#include "study/guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace study {

namespace {

// Proofs of the rung's runs; one failed proof of any run fails the rung.
std::vector<Proof> combined_proofs(const RunsByRepeat& runs) {
  std::vector<Proof> combined = runs.begin()->second.proofs;
  for (const auto& [repeat, run] : runs) {
    for (size_t i = 0; i < std::min(combined.size(), run.proofs.size()); ++i) {
      if (!run.proofs[i].passed && combined[i].passed) combined[i] = run.proofs[i];
    }
  }
  return combined;
}

}  // namespace

void judge_alone(const RunsByRepeat& runs, StudyRung& rung) {
  rung.proofs = combined_proofs(runs);
  const auto failed = std::ranges::find(rung.proofs, false, &Proof::passed);
  if (failed != rung.proofs.end()) {
    rung.status = RungStatus::unproven;
    rung.reason = fmt::format("{}: expected {}; observed {}", failed->field, failed->expected, failed->observed);
    return;
  }
  for (const auto& [repeat, run] : runs) {
    const auto bad = std::ranges::find_if_not(run.losses, [](double loss) { return std::isfinite(loss); });
    if (bad == run.losses.end()) continue;
    rung.status = RungStatus::voided;
    rung.reason =
        fmt::format("the loss of step {} is not finite", run.loss_steps[static_cast<size_t>(bad - run.losses.begin())]);
  }
}

void judge_by_reference(const Plan& plan, size_t index, size_t reference, const Measured& measured,
                        std::vector<StudyRung>& rungs) {
  StudyRung& rung = rungs[index];
  if (rung.status == RungStatus::unproven) return;
  const RunsByRepeat& reference_runs = measured.runs_of[reference];
  if (reference_runs.empty()) {
    const bool waits = rungs[reference].status == RungStatus::missing;
    rung.status = waits ? RungStatus::missing : RungStatus::voided;
    rung.reason = fmt::format("the reference rung has no run {}to compare losses with", waits ? "yet " : "");
    return;
  }
  if (plan.commands) {
    CommandGuard of_command;
    if (plan.commands->guards_losses) {
      of_command = guard_command(measured.runs_of[index], reference_runs);
    } else {
      of_command.words = "not compared, as asked";
    }
    rung.command->losses = of_command.words;
    rung.guard = of_command.verdict;
    if (!rung.guard) return;
    rung.guard->guarded_by = reference;
    if (!rung.guard->passed && rung.is_measured()) {
      rung.status = RungStatus::voided;
      rung.reason = rung.guard->message;
    }
    return;
  }
  const Guard verdict = guard_rung(plan.rungs[index], measured.runs_of[index], plan.rungs[reference], reference_runs);
  rung.guard = RungGuard{.passed = verdict.passed,
                         .deviation = verdict.deviation,
                         .max_deviation = verdict.max_deviation,
                         .tolerance = verdict.tolerance,
                         .known_offset = verdict.known_offset,
                         .steps = verdict.steps,
                         .message = verdict.message,
                         .guarded_by = reference,
                         .repeat = verdict.repeat};
  if (!verdict.passed) {
    rung.status = RungStatus::voided;
    rung.reason = verdict.message;
  }
}

}  // namespace study
