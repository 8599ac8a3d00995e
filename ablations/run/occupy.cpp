#include "ablations/run/occupy.h"

#include "harness/machine/machine.h"

namespace ablations {

Occupied occupy(const std::set<model::Device>& devices, const std::string& command, const std::filesystem::path& at,
                bool wait) {
  std::set<std::string> names;
  for (const model::Device device : devices) names.insert(harness::lock_name(device == model::Device::cuda));
  return harness::occupy(names, command, at, wait);
}

std::set<model::Device> devices_of(const Plan& plan, const std::vector<PlannedRun>& runs) {
  std::set<model::Device> devices;
  for (const PlannedRun& run : runs) devices.insert(plan.rungs[run.rung].recipe.device);
  return devices;
}

}  // namespace ablations
