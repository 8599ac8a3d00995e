#include "study/headline.h"

#include "study/rung_summary.h"

#include <vector>

namespace study {

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
