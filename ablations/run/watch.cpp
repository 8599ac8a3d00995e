#include "ablations/run/watch.h"

#include "ablations/run/memory.h"
#include "ablations/run/workload.h"
#include "harness/measure/environment.h"

#include <string>
#include <vector>

namespace ablations {

using files::Json;

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
  if (monitor_) monitor_->begin(measured_);
}

void Watch::end() {
  if (monitor_) gpu_ = monitor_->end();
  after_ = harness::processor_time(measured_);
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
}

void Watch::complete(Json& record) const {
  Json& timing = record.at("timing");
  const auto timed_steps = static_cast<int64_t>(timing.at("step_ms").size()) - timing.at("warmup_steps").get<int64_t>();
  record["monitor"] = harness::to_json(gpu_, record.at("workload").at("tokens_per_step").get<int64_t>() * timed_steps);

  const int threads =
      busy_threads(monitor_ ? model::Device::cuda : model::Device::cpu, record.at("environment").at("threads"));
  Json& lost = timing["processor_lost"] = nullptr;
  if (before_ && after_) {
    lost = harness::share_lost(*before_, *after_, seconds_, threads, harness::this_machine().cpu.logical_cores);
  }

  AllocatorCalls calls;
  if (const Json counted = files::field_or_null(timing, "allocator"); !counted.is_null()) {
    calls = {counted.at("allocations"), counted.at("frees"), counted.at("retries")};
  }
  std::vector<std::string> flags = harness::flags(gpu_);
  for (const std::string& flag : {harness::flag(lost.is_null() ? 0 : lost.get<double>()), flag(calls)}) {
    if (!flag.empty()) flags.push_back(flag);
  }
  record["flags"] = flags;
}

}  // namespace ablations
