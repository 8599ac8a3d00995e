// A run's memory: the peak, refused allocations, and whether PyTorch's allocator had to ask the device for more.
#pragma once

#include "ablations/plan/make_plan.h"
#include "harness/process/locks.h"
#include "model/recipe.h"
#include "results/record.h"

#include <filesystem>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace ablations {

// The peak of this process so far.
PeakMemory peak_memory(const model::Recipe& recipe);

// peak_memory() begins anew. PyTorch's allocator gives back its reserve. On a CPU without /proc/self/clear_refs the
// peak stays.
void reset_peak_memory(const model::Recipe& recipe);

// Tells the peak of a run's timed steps from that of the whole run, in whose first steps products are timed. What a
// replayed graph takes is allocated once, when it is captured; so its peak begins there. On a CPU without
// /proc/self/clear_refs both peaks are the run's.
class PeakWatch {
 public:
  explicit PeakWatch(const model::Recipe& recipe) : recipe_(recipe) {}

  void after_step(int64_t steps);  // so many were taken
  void begin_window();             // the next step is the first timed one
  [[nodiscard]] PeakMemory peak() const;

 private:
  void begin();

  model::Recipe recipe_;
  int64_t before_bytes_ = 0;
};

// "1.25 GiB of the host's memory were available"
std::string available_host_memory();

// The allocation that was refused, as the caching allocator reports it.
class RefusedAllocation {
 public:
  void watch();                                // from here on; throws c10::Error where there is no CUDA device
  [[nodiscard]] std::string describe() const;  // "asked for 2.00 GiB more; of 139.80 GiB on the device ..."

 private:
  struct Sizes {
    size_t asked = 0, total = 0, free = 0, allocated = 0;
  };
  std::shared_ptr<Sizes> sizes_ = std::make_shared<Sizes>();  // the allocator keeps the observer for good
};

AllocatorCalls allocator_calls();  // of device 0 so far
AllocatorCalls operator-(const AllocatorCalls& after, const AllocatorCalls& before);

// "memory: ..."; empty where there were none.
std::string flag(const AllocatorCalls& calls);

// Locks the devices that a command measures on: two measurements at once would disturb each other unseen. A runner
// locks them for all its children.

using harness::Occupied;

// As harness::occupy, of recipes' devices. The GPU is the current CUDA device.
Occupied occupy(const std::set<model::Device>& devices, const std::string& command, const std::filesystem::path& at,
                bool wait);

// The devices that the runs' recipes name.
std::set<model::Device> devices_of(const Plan& plan, const std::vector<PlannedRun>& runs);

}  // namespace ablations
