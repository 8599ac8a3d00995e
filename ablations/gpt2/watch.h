// Watches the GPU and the processor while a run's steps are timed. Our own runs watch themselves (run.cpp); the runner
// watches a peer's (PeerWatch).
#pragma once

#include "ablations/plan/make_plan.h"
#include "harness/machine/gpu_monitor.h"
#include "harness/machine/processor_time.h"
#include "model/recipe.h"
#include "results/record.h"

#include <unistd.h>

#include <chrono>
#include <optional>
#include <string_view>

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

// Watches a peer's run. Our own runs watch themselves (run.cpp). A peer is a script that reports the begin and end of
// its timed window on its pipe. So its run is flagged like ours on a throttled or shared GPU or a busy processor. Its
// joules per token can be compared with ours, too.

class PeerWatch {
 public:
  // Watches nothing where the rung is not a peer's.
  explicit PeerWatch(const Rung& rung);

  // A line of the child's. "window begins PID" and "window ends" are for this class: true.
  bool take(std::string_view line);

  // Completes the peer's record of a run that ended well (watch.h).
  void complete(Record& record) const;

 private:
  std::optional<Watch> watch_;
  bool begun_ = false;
};

}  // namespace ablations
