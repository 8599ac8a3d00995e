#include "ablations/run/occupy.h"

#include "harness/machine/machine.h"
#include "harness/process/unfit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace ablations {

Occupied occupy(const std::set<model::Device>& devices, const std::string& command, const std::filesystem::path& at,
                bool wait) {
  Occupied locks;
  // In the set's order, the same for everybody: no two programs wait for each other.
  for (const model::Device device : devices) {
    locks.emplace_back(harness::lock_name(device == model::Device::cuda),
                       fmt::format("{} (pid {}, {})", command, ::getpid(), std::filesystem::absolute(at).string()),
                       [wait](const std::string& taken) {
                         if (!wait) throw harness::Unfit(taken + "; begin when it has ended, or pass --wait");
                         fmt::print(stderr, "{}; waiting for its end\n", taken);
                       });
  }
  return locks;
}

std::set<model::Device> devices_of(const Plan& plan, const std::vector<PlannedRun>& runs) {
  std::set<model::Device> devices;
  for (const PlannedRun& run : runs) devices.insert(plan.rungs[run.rung].recipe.device);
  return devices;
}

}  // namespace ablations
