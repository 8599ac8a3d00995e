// The clock: warm-up and timed steps of a workload, each with its own time.
//
// On a GPU there is one event between two steps on their stream, so idle time between steps is included. The host waits
// only before the first timed step and after the last, so the queue never runs empty. The host's clock over the whole
// window is kept, too; it is longer by the latency of the first and the last event.
#pragma once

#include "harness/clock/measured_workload.h"

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

// A window may take up to this many times its timed steps, to last as long as asked.
inline constexpr int64_t most_times_longer = 8;

// Takes the warm-up steps, then the timed steps. On a GPU more steps are timed if the window would be shorter than
// least_window_ms (steps_to_last()). Exactly timed_steps for a least_window_ms of 0.
// `on_step` is called after each step is done (CPU) or enqueued (GPU), with the number of steps so far. `on_begin` and
// `on_end` are called just before and just after the timed window, when nothing is enqueued.
Timing measure(
    Workload& workload, int64_t warmup_steps, int64_t timed_steps,
    const std::function<void(int64_t)>& on_step = [](int64_t) {}, const std::function<void()>& on_begin = [] {},
    const std::function<void()>& on_end = [] {}, double least_window_ms = 0);

// How many steps a window needs to last least_ms, by the shortest step in the second half of warmup_ms. The result lies
// between timed_steps and most_times_longer times that.
int64_t steps_to_last(double least_ms, std::span<const double> warmup_ms, int64_t timed_steps);

}  // namespace harness
