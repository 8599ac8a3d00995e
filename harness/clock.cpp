#include "harness/clock.h"

#include <c10/cuda/CUDAEvent.h>
#include <sys/resource.h>

#include <chrono>
#include <numeric>

namespace harness {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

int64_t minor_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

}  // namespace

Timing measure(Workload& workload, int64_t warmup_steps, int64_t timed_steps,
               const std::function<void(int64_t)>& on_step, const std::function<void()>& on_begin,
               const std::function<void()>& on_end) {
  Timing timing{.warmup_steps = warmup_steps};
  const bool on_cuda = workload.on_cuda();
  std::vector<c10::cuda::CUDAEvent> begins, ends;
  Clock::time_point window_start;
  const int64_t steps = warmup_steps + timed_steps;
  for (int64_t i = 0; i < steps; ++i) {
    if (i == warmup_steps) {
      workload.synchronize();
      on_begin();
      window_start = Clock::now();
    }
    const int64_t faults = minor_faults();
    const auto start = Clock::now();
    if (on_cuda) begins.emplace_back(cudaEventDefault).record();
    workload.step();
    if (on_cuda) ends.emplace_back(cudaEventDefault).record();
    timing.step_ms.push_back(milliseconds(Clock::now() - start));
    timing.page_faults.push_back(minor_faults() - faults);
    on_step(i + 1);
  }
  workload.synchronize();
  timing.window_ms = milliseconds(Clock::now() - window_start);
  on_end();
  if (on_cuda) {
    for (size_t i = 0; i < begins.size(); ++i) timing.step_ms[i] = begins[i].elapsed_time(ends[i]);
    timing.device_ms = std::accumulate(timing.step_ms.begin() + warmup_steps, timing.step_ms.end(), 0.0);
  }
  return timing;
}

}  // namespace harness
