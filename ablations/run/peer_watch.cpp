#include "ablations/run/peer_watch.h"

#include <charconv>

namespace ablations {

PeerWatch::PeerWatch(const Rung& rung) {
  if (!rung.peer.empty()) watch_.emplace(rung.recipe.device);
}

bool PeerWatch::take(std::string_view line) {
  constexpr std::string_view begins = "window begins ";
  if (line == "window ends") {
    if (begun_) watch_->end();
    begun_ = false;
    return true;
  }
  if (!line.starts_with(begins)) return false;
  if (!watch_ || begun_) return true;
  line.remove_prefix(begins.size());
  pid_t pid = 0;  // no process, if the line is garbage
  std::from_chars(line.data(), line.data() + line.size(), pid);
  watch_->begin(pid);
  begun_ = true;
  return true;
}

void PeerWatch::complete(Record& record) const {
  if (watch_ && record.is_ok()) watch_->complete(record);
}

}  // namespace ablations
