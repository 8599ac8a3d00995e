// The clock: warm-up and timed steps of a workload, each with its own time.
//
// On a GPU there is one event between two steps on their stream, so idle time between steps is included. The host waits
// only before the first timed step and after the last, so the queue never runs empty. The host's clock over the whole
// window is kept, too; it is longer by the latency of the first and the last event.
#pragma once

#include "harness/clock/workload.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace harness {

struct Timing {
  int64_t warmup_steps = 0;
  std::vector<double> step_ms;       // warm-up steps first; on a GPU each lasts until the next one begins
  std::vector<int64_t> page_faults;  // minor faults of the process during each step
  double window_ms = 0;              // host clock over the timed steps
  std::optional<double> device_ms;   // the device's clock over them, the sum of their times; none on a CPU
};

// A window of so many steps may take up to so many times as many, to last as long as is asked.
inline constexpr int64_t most_times_longer = 8;

// On a GPU the window lasts at least least_window_ms if that takes no more than most_times_longer times as many steps
// as timed_steps, judged by the shortest of the last warm-up steps; 0: just timed_steps.
// on_step is called after each step was done (CPU) or enqueued (GPU), with the number of steps so far. on_begin and
// on_end are called just before and just after the timed window, when nothing is enqueued.
Timing measure(
    Workload& workload, int64_t warmup_steps, int64_t timed_steps,
    const std::function<void(int64_t)>& on_step = [](int64_t) {}, const std::function<void()>& on_begin = [] {},
    const std::function<void()>& on_end = [] {}, double least_window_ms = 0);

// The steps of a window that lasts least_ms where the steps of the warm-up took warmup_ms.
int64_t steps_to_last(double least_ms, std::span<const double> warmup_ms, int64_t timed_steps);

}  // namespace harness
