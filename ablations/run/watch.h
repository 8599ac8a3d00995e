// Watches the GPU and the processor while a run's steps are timed. Our own runs watch themselves (run.cpp); the runner
// watches a peer's (peer_watch.h).
#pragma once

#include "harness/machine/gpu_monitor.h"
#include "harness/machine/processor_time.h"
#include "model/recipe.h"
#include "results/record.h"

#include <unistd.h>

#include <chrono>
#include <optional>

namespace ablations {

class Watch {
 public:
  // Loads and starts NVML for a run on a GPU, which takes a while: before the first step.
  explicit Watch(model::Device device);

  void begin(pid_t measured = ::getpid());  // the timed window of that process begins now
  void end();                               // and has ended

  // Fills in the monitor, the flags and processor_lost of a good run's record. Its allocator's calls must be there
  // already.
  void complete(Record& record) const;

 private:
  std::optional<harness::Monitor> monitor_;  // on a GPU
  harness::GpuWatch gpu_;
  pid_t measured_ = 0;
  std::chrono::steady_clock::time_point begun_;
  double seconds_ = 0;
  std::optional<harness::ProcessorTime> before_, after_;
};

}  // namespace ablations
