#include "ablations/gpt2/watch.h"

#include "ablations/gpt2/ladder_file.h"
#include "ablations/gpt2/memory.h"
#include "ablations/gpt2/options.h"
#include "harness/machine/machine.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ablations {

Watch::Watch(model::Device device) {
  gpu_.unavailable = "no step ran on a GPU";
  if (device != model::Device::cuda) return;
  gpu_.unavailable = "nobody said when the timed window began and ended";
  monitor_.emplace(harness::current_bus_id());
}

// The monitor's thread begins last and ends first: its time is not the run's.
void Watch::begin(pid_t measured) {
  measured_ = measured;
  begun_ = std::chrono::steady_clock::now();
  before_ = harness::processor_time(measured_);
  if (monitor_) monitor_->begin({measured_});
}

void Watch::end() {
  if (monitor_) gpu_ = monitor_->end();
  after_ = harness::processor_time(measured_);
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
}

void Watch::complete(Record& record) const {
  RunTiming& timing = record.timing;
  const int64_t timed_steps = std::ssize(timing.step_ms) - timing.warmup_steps;
  const int64_t tokens = record.workload.tokens_per_step / record.workload.ranks.value_or(1);  // of this device
  record.monitor = results::summary_of(gpu_, tokens * timed_steps);

  const int threads = busy_threads(monitor_ ? model::Device::cuda : model::Device::cpu,
                                   static_cast<int>(record.environment.threads.value_or(1)));
  std::optional<double> lost;
  if (before_ && after_) {
    lost = harness::share_lost(*before_, *after_, seconds_, threads, harness::this_machine().cpu.logical_cores);
  }
  timing.processor_lost = lost;

  const AllocatorCalls calls = timing.allocator.value_or(AllocatorCalls{});
  std::vector<std::string> flags = harness::flags(gpu_);
  const auto timed = static_cast<size_t>(std::max(int64_t{0}, timed_steps));
  const std::string pause = harness::flag_of_pause(std::span(timing.step_ms).last(timed));
  for (const std::string& flag : {harness::flag(lost.value_or(0)), pause, flag(calls)}) {
    if (!flag.empty()) flags.push_back(flag);
  }
  record.flags = std::move(flags);
}

PeerWatch::PeerWatch(const Rung& rung) {
  if (!rung.peer.empty()) watch_.emplace(recipe_of(rung).device);
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
