#include "ablations/run/peer_watch.h"

#include <charconv>
#include <string>

namespace ablations {

using harness::Json;

PeerWatch::PeerWatch(const Rung& rung) {
  if (rung.peer.empty() || rung.recipe.device != model::Device::cuda) return;
  monitor_.emplace(harness::current_bus_id());
}

bool PeerWatch::take(std::string_view line) {
  constexpr std::string_view begins = "window begins ";
  if (line == "window ends") {
    if (begun_) seen_ = monitor_->end();
    begun_ = false;
    return true;
  }
  if (!line.starts_with(begins)) return false;
  if (!monitor_ || begun_) return true;
  line.remove_prefix(begins.size());
  pid_t pid = 0;  // nobody's, where the line is garbage
  std::from_chars(line.data(), line.data() + line.size(), pid);
  monitor_->begin(pid);
  begun_ = true;
  return true;
}

void PeerWatch::complete(Json& record) const {
  if (!monitor_ || record.at("status") != "ok") return;
  const Json& timing = record.at("timing");
  const auto timed_steps = static_cast<int64_t>(timing.at("step_ms").size()) - timing.at("warmup_steps").get<int64_t>();
  const auto tokens_per_step = record.at("workload").at("tokens_per_step").get<int64_t>();
  record["monitor"] = harness::to_json(seen_, tokens_per_step * timed_steps);
  for (const std::string& flag : harness::flags(seen_)) record["flags"].push_back(flag);
}

}  // namespace ablations
