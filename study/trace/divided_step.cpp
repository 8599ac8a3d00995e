#include "study/trace/divided_step.h"

#include <fmt/format.h>

#include <algorithm>

namespace study {

namespace {

double percent_of(double part, double whole) { return whole > 0 ? 100.0 * part / whole : 0.0; }

}  // namespace

Busy busy_of(const TraceSummary& summary) {
  const double busy_ms = summary.busy_ms, wall_ms = summary.wall_ms;
  if (!summary.on_gpu()) {
    return {.percent = percent_of(busy_ms, summary.traced_wall_ms), .idle_ms = summary.gaps.ms};
  }
  if (!slower_when_traced(summary).empty()) return {};
  return {.percent = std::min(100.0, percent_of(busy_ms, wall_ms)), .idle_ms = std::max(0.0, wall_ms - busy_ms)};
}

DividedStep divided(const TraceSummary& summary, double clean_ms) {
  const std::optional<double> idle_ms = busy_of(summary).idle_ms;
  DividedStep step{.ms = clean_ms, .traced_ms = idle_ms.value_or(0)};
  for (const PhaseTime& phase : summary.by_phase) step.traced_ms += phase.ms;
  const double scale = step.traced_ms > 0 ? clean_ms / step.traced_ms : 0.0;
  if (idle_ms) step.idle_ms = scale * *idle_ms;
  for (const PhaseTime& phase : summary.by_phase) step.by_phase.push_back({phase.phase, scale * phase.ms});
  return step;
}

RungProfile profile_of(const TraceSummary& summary, double clean_ms) {
  const Busy busy = busy_of(summary);
  return {.busy_percent = busy.percent,
          .idle_ms = busy.idle_ms,
          .launch_bound_percent = summary.launch_bound_percent,
          .by_phase = summary.by_phase,
          .step = divided(summary, clean_ms)};
}

std::string slower_when_traced(const TraceSummary& summary) {
  if (!summary.on_gpu() || summary.busy_ms <= 1.02 * summary.wall_ms) return "";
  return fmt::format(
      "the GPU was slower while traced: {:.4g} ms of work, a step without tracing takes {:.4g} ms; how "
      "busy it was is not known",
      summary.busy_ms, summary.wall_ms);
}

}  // namespace study
