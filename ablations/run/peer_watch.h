// The GPU while a peer's steps are timed. Our own runs watch it themselves (run.cpp); a peer, which is a script, says
// on its pipe when its timed window begins and ends, and the runner watches. So a PyTorch run on a throttled or shared
// GPU is flagged as ours are, and its joules for each token stand beside ours.
#pragma once

#include "ablations/plan/plan.h"
#include "harness/monitor.h"

#include <optional>
#include <string_view>

namespace ablations {

class PeerWatch {
 public:
  // Watches nothing where the rung is not a peer's on a GPU.
  explicit PeerWatch(const Rung& rung);

  // A line of the child's. "window begins PID" and "window ends" are for this class: true.
  bool take(std::string_view line);

  // Writes "monitor" and "flags" into the peer's record of a run that ended well.
  void complete(harness::Json& record) const;

 private:
  std::optional<harness::Monitor> monitor_;
  bool begun_ = false;
  harness::GpuWatch seen_{.unavailable = "the peer did not say when its timed window began and ended"};
};

}  // namespace ablations
