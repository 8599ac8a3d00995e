#include "results/observations.h"

#include "harness/stats/stats.h"

#include <fmt/format.h>

namespace results {

int64_t count(const Counts& counts, const std::string& name) {
  const auto found = counts.find(name);
  return found == counts.end() ? 0 : found->second;
}

namespace {

// The driver updates the energy counter about every 100 ms: over a window of a second the difference is right to 10 %.
constexpr double shortest_energy_window_s = 1.0;

}  // namespace

MonitorSummary summary_of(const harness::GpuWatch& watch, int64_t tokens) {
  MonitorSummary summary;
  if (!watch.unavailable.empty()) {
    summary.unavailable = watch.unavailable;
    return summary;
  }
  summary.samples = std::ssize(watch.samples);
  const auto note = [&](const char* name, const std::string& text) {
    if (!text.empty()) summary.notes[name] = text;
  };
  const auto range_of = [&](const char* name) -> std::optional<Range> {
    const auto [values, about] = harness::series(watch, name);
    note(name, about);
    if (values.empty()) return std::nullopt;
    return Range{harness::quantile(values, 0.0), harness::median(values), harness::quantile(values, 1.0)};
  };
  summary.sm_clock_mhz = range_of("sm_clock_mhz");
  summary.memory_clock_mhz = range_of("memory_clock_mhz");
  summary.power_w = range_of("power_w");
  summary.temperature_c = range_of("temperature_c");
  summary.utilization_percent = range_of("utilization_percent");

  const auto [bits, about] = harness::series(watch, "clocks_event_reasons");
  note("throttle", about);
  if (!bits.empty()) {
    summary.throttle.emplace();
    for (const auto& [reason, share] : harness::throttle_shares(watch)) summary.throttle->push_back({reason, share});
  }

  summary.energy_j = watch.energy_j.value;
  note("energy_j", watch.energy_j.note);
  if (summary.energy_j && watch.seconds < shortest_energy_window_s) {
    note("joules_per_token", fmt::format("the timed steps took {:.2f} s, too short for the energy counter, which "
                                         "moves every 100 ms or so; at least {:g} s are needed: more --steps",
                                         watch.seconds, shortest_energy_window_s));
  } else if (summary.energy_j && tokens > 0) {
    summary.joules_per_token = *summary.energy_j / static_cast<double>(tokens);
  }
  if (const auto& others = watch.other_processes.value) summary.other_processes = static_cast<int64_t>(*others);
  note("other_processes", watch.other_processes.note);
  return summary;
}

}  // namespace results
