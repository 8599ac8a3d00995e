// The clock: warm-up and timed steps of a workload, each with its own time.
//
// On a GPU there is one event between two steps on their stream, so idle time between steps is included. The host waits
// only before the first timed step and after the last, so the queue never runs empty. The host's clock over the whole
// window is kept, too; it is longer by the latency of the first and the last event.
#pragma once

#include "harness/measure/workload.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace harness {

struct Timing {
  int64_t warmup_steps = 0;
  std::vector<double> step_ms;       // warm-up steps first; on a GPU each lasts until the next one begins
  std::vector<int64_t> page_faults;  // minor faults of the process during each step
  double window_ms = 0;              // host clock over the timed steps
  std::optional<double> device_ms;   // the device's clock over them, the sum of their times; none on a CPU
};

// on_step is called after each step was done (CPU) or enqueued (GPU), with the number of steps so far. on_begin and
// on_end are called just before and just after the timed window, when nothing is enqueued.
Timing measure(
    Workload& workload, int64_t warmup_steps, int64_t timed_steps,
    const std::function<void(int64_t)>& on_step = [](int64_t) {}, const std::function<void()>& on_begin = [] {},
    const std::function<void()>& on_end = [] {});

}  // namespace harness
