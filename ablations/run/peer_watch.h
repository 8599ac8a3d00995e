// Watches a peer's run. Our own runs watch themselves (run.cpp). A peer is a script that reports the begin and end of
// its timed window on its pipe. So its run is flagged like ours on a throttled or shared GPU or a busy processor. Its
// joules per token can be compared with ours, too.
#pragma once

#include "ablations/plan/make_plan.h"
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
