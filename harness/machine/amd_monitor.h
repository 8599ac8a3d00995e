// AMD's GPUs while steps are timed, as AMD's `amd-smi` tells of them (ROCm 6 and later), every second or two: clocks,
// power, temperature, use, and whose processes compute there. Nothing is asked on a machine without it. Its
// throttle_status does not count: it also tells of the power limit, at which a busy GPU always works.
#pragma once

#include "harness/machine/gpu_monitor.h"
#include "harness/machine/nvml.h"

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace harness {

// All of this machine, asked once; none without the tool.
const VisibleGpus& amd_gpus();

// What `amd-smi metric --json` says of the GPU with this number (its place among amd_gpus()).
GpuSample amd_sample(const std::string& metric, size_t gpu);
// What `amd-smi process --json` does.
std::vector<pid_t> amd_processes(const std::string& process, size_t gpu);

class AmdMonitor {
 public:
  // Begins to ask, if there are any. Made before the measured program: what starts later counts as the program's.
  AmdMonitor();
  ~AmdMonitor();
  AmdMonitor(const AmdMonitor&) = delete;  // ends what it started once
  AmdMonitor& operator=(const AmdMonitor&) = delete;

  void look(std::vector<pid_t> measured);   // these are the program's now
  void begin(std::vector<pid_t> measured);  // the timed window of these processes begins now
  void end();                               // and has ended; waits for an answer, if there is none yet

  // Of each GPU that one of them computed on, by its number.
  [[nodiscard]] std::vector<std::pair<size_t, GpuWatch>> used() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Answer {
    Clock::time_point when;
    std::string metric, process;
  };
  void read(int from);

  pid_t asker_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable answered_;
  std::vector<Answer> answers_;
  std::vector<pid_t> measured_;
  Clock::time_point begun_, ended_;
  std::jthread reader_;
};

}  // namespace harness
