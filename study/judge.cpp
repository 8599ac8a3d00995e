#include "study/judge.h"

#include "study/guard.h"
#include "study/rung_summary.h"

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

namespace {

using Rungs = std::vector<StudyRung>;

// The fastest rung before `last` that is clearly faster than `last` and faster than the reference. The best of many may
// be best by luck. So the intervals of their times must lie apart, too.
std::optional<size_t> overtaking(const Plan& plan, const Measured& measured, const Rungs& rungs, size_t reference,
                                 size_t last) {
  const auto is_clear = [&](size_t i) {
    const auto ahead = speedup(measured.runs_of[last], measured.runs_of[i]);
    if (!ahead || !ahead->is_faster()) return false;
    const auto &high = rungs[i].ms_per_step->hi, &low = rungs[last].ms_per_step->lo;
    return high && low && *high < *low;
  };
  std::optional<size_t> fastest;
  double best = 1;
  for (size_t i = reference + 1; i < last; ++i) {
    const auto& ratio = rungs[i].speedup_first;
    if (!plan.rungs[i].peer.empty() || !ratio || ratio->ratio <= best || !is_clear(i)) continue;
    best = ratio->ratio;
    fastest = i;
  }
  return fastest;
}

bool counts(const StudyRung& rung) { return !rung.peer && rung.is_measured(); }

}  // namespace

size_t reference_that_counts(const Plan& plan, const Rungs& rungs) {
  for (size_t i = plan.reference; plan.mode == Mode::cumulative && i < rungs.size(); ++i) {
    if (counts(rungs[i])) return i;
  }
  return plan.reference;
}

std::optional<Headline> headline_of(const Plan& plan, const Measured& measured, const Rungs& rungs, size_t reference,
                                    std::optional<size_t> last) {
  if (plan.mode == Mode::leave_one_out) last = 1;
  if (plan.mode == Mode::factorial) last = plan.rungs.size() - 1;
  if (plan.mode == Mode::one_at_a_time || plan.mode == Mode::sweep) last.reset();
  if (!last || *last == reference || !rungs[*last].speedup_first) return std::nullopt;
  Headline headline{.first = reference, .last = *last, .speedup = *rungs[*last].speedup_first};
  if (reference != plan.reference) headline.planned = plan.reference;
  if (plan.mode == Mode::cumulative) headline.fastest = overtaking(plan, measured, rungs, reference, *last);
  return headline;
}

}  // namespace study
