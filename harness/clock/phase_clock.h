// The host's time in one phase of each step. The workload tells when a phase begins, so a timed step reads the clock
// twice more, and does nothing else than without.
#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>
#include <vector>

namespace harness {

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

  // Of every time that the phase has ended.
  [[nodiscard]] const std::vector<double>& ms() const { return ms_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::string_view phase_;
  bool running_ = false;
  Clock::time_point begun_;
  std::vector<double> ms_;
};

}  // namespace harness
