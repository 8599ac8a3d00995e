// What was seen of a run's GPU while its steps were timed: "monitor" of a record, made of what
// harness/machine/gpu_monitor.h watches.
#pragma once

#include "harness/machine/gpu_monitor.h"
#include "results/fields.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace results {

// Of a series of samples.
struct Range {
  double min = 0, median = 0, max = 0;

  LADDER_FIELDS(Range, min, median, max)
};

// Why clocks were not higher.
struct Throttle {
  std::string reason;  // NVML's name
  double share = 0;    // of the samples

  LADDER_FIELDS(Throttle, reason, (share, {.above = 0, .most = 1}))
};

struct Unwatched {
  std::optional<std::string> unavailable;  // why nobody looked

  [[nodiscard]] bool is_short() const { return unavailable.has_value(); }

  LADDER_FIELDS(Unwatched, (unavailable, absent))
};

// What is none has a note. Where nobody looked there is nothing but the reason.
struct MonitorSummary : Unwatched {
  using Short = Unwatched;

  int64_t samples = 0;
  std::optional<Range> sm_clock_mhz, memory_clock_mhz, power_w, temperature_c, utilization_percent;
  std::optional<std::vector<Throttle>> throttle;
  std::optional<double> energy_j;          // of the whole GPU
  std::optional<double> joules_per_token;  // none where the window was too short for the counter
  std::optional<int64_t> other_processes;  // the most that were seen at once
  std::map<std::string, std::string> notes;

  LADDER_MORE_FIELDS(Unwatched, MonitorSummary, (samples, from_0), sm_clock_mhz, memory_clock_mhz, power_w,
                     temperature_c, utilization_percent, throttle, energy_j,
                     (joules_per_token, {.least = 0, .most = 1e30}), other_processes, notes)
};

// tokens: of the timed window.
MonitorSummary summary_of(const harness::GpuWatch& watch, int64_t tokens);

LADDER_COMPILED_ONCE(MonitorSummary)

}  // namespace results
