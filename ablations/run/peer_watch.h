// Our own runs watch themselves (run.cpp). A peer is a script: it reports on its pipe when its timed window begins and
// ends, and the runner watches. So a PyTorch run on a throttled or shared GPU or on a busy processor is flagged like
// ours, and its joules per token can be compared with ours.
#pragma once

#include "ablations/plan/plan.h"
#include "ablations/run/watch.h"
#include "results/record.h"

#include <optional>
#include <string_view>

namespace ablations {

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
