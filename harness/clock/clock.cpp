#include "harness/clock/clock.h"

#include "harness/machine/control_groups.h"

#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <numeric>

namespace harness {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

using Events = std::vector<c10::cuda::CUDAEvent>;

// One event before the first of these steps and one after each; none on a CPU. Made in advance, because it takes time.
Events events_of(int64_t steps, bool on_cuda) {
  Events events;
  for (int64_t i = 0; on_cuda && i <= steps; ++i) {
    events.emplace_back(cudaEventDefault).create(c10::cuda::current_device());
  }
  return events;
}

void append_times(const Events& events, std::vector<double>& times_ms) {
  for (size_t i = 1; i < events.size(); ++i) times_ms.push_back(events[i - 1].elapsed_time(events[i]));
}

}  // namespace

int64_t steps_to_last(double least_ms, std::span<const double> warmup_ms, int64_t timed_steps) {
  const auto late = warmup_ms.subspan(warmup_ms.size() / 2);  // the first ones capture, choose products, ask for memory
  const double step_ms = late.empty() ? 0 : std::ranges::min(late);
  if (!(step_ms > 0)) return timed_steps;
  const double steps = std::ceil(least_ms / step_ms);
  return std::clamp(static_cast<int64_t>(std::min(steps, 1e9)), timed_steps, most_times_longer * timed_steps);
}

Timing measure(Workload& workload, int64_t warmup_steps, int64_t timed_steps,
               const std::function<void(int64_t)>& on_step, const std::function<void()>& on_begin,
               const std::function<void()>& on_end, double least_window_ms) {
  Timing timing{.warmup_steps = warmup_steps};
  const bool on_cuda = workload.on_cuda();
  Events warmup_events = events_of(warmup_steps, on_cuda);
  const auto take_steps = [&](int64_t steps, Events& events) {
    if (on_cuda) events.front().record();
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t faults = minor_faults();
      const auto start = Clock::now();
      workload.step();
      if (on_cuda) events[static_cast<size_t>(i) + 1].record();
      timing.step_ms.push_back(milliseconds(Clock::now() - start));
      timing.page_faults.push_back(minor_faults() - faults);
      on_step(std::ssize(timing.step_ms));
    }
  };
  take_steps(warmup_steps, warmup_events);
  workload.synchronize();
  if (on_cuda && least_window_ms > 0) {
    std::vector<double> warmup_ms;
    append_times(warmup_events, warmup_ms);
    timed_steps = steps_to_last(least_window_ms, warmup_ms, timed_steps);
  }
  Events timed_events = events_of(timed_steps, on_cuda);
  on_begin();
  const auto window_start = Clock::now();
  take_steps(timed_steps, timed_events);
  workload.synchronize();
  timing.window_ms = milliseconds(Clock::now() - window_start);
  on_end();
  if (on_cuda) {
    timing.step_ms.clear();
    append_times(warmup_events, timing.step_ms);
    append_times(timed_events, timing.step_ms);
    timing.device_ms = std::accumulate(timing.step_ms.begin() + warmup_steps, timing.step_ms.end(), 0.0);
  }
  return timing;
}

}  // namespace harness
