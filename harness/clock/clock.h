// The clock: warm-up and timed steps of a workload, each with its own time.
//
// On a GPU there is one event between two steps on their stream, so idle time between steps is included. The host waits
// only before the first timed step and after the last, so the queue never runs empty. The host's clock over the whole
// window is kept, too; it is longer by the latency of the first and the last event.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace harness {

// What the harness measures: anything that has a step. It knows nothing of GPT-2.

class Workload {
 public:
  virtual ~Workload() = default;
  // Does, or on a GPU only enqueues, one step.
  virtual void step() = 0;
  // Returns when everything enqueued has been done.
  virtual void synchronize() = 0;
  // Whether steps run on the current CUDA stream (and are timed by its events) or on the calling thread.
  [[nodiscard]] virtual bool on_cuda() const = 0;
};

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

// The host's time in one phase of each step. The workload tells when a phase begins, so a timed step reads the clock
// twice more, and does nothing else than without.

class PhaseClock {
 public:
  // Steps beyond `steps` may ask for memory.
  PhaseClock(std::string_view phase, size_t steps) : phase_(phase) { ms_.reserve(steps); }

  // The phase before ends.
  void begin_phase(std::string_view phase) {
    if (running_) {
      ms_.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begun_).count());
      running_ = false;
    }
    if (phase != phase_) return;
    running_ = true;
    begun_ = Clock::now();
  }

  // The milliseconds of each time that the phase has ended.
  [[nodiscard]] const std::vector<double>& ms() const { return ms_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::string_view phase_;
  bool running_ = false;
  Clock::time_point begun_;
  std::vector<double> ms_;
};

}  // namespace harness
