// Locks the devices that a command measures on: two measurements at once would disturb each other unseen. A runner
// locks them for all its children.
#pragma once

#include "ablations/plan/make_plan.h"
#include "harness/process/locks.h"

#include <filesystem>
#include <list>
#include <set>
#include <string>
#include <vector>

namespace ablations {

using harness::Occupied;

// As harness::occupy, of recipes' devices. The GPU is the current CUDA device.
Occupied occupy(const std::set<model::Device>& devices, const std::string& command, const std::filesystem::path& at,
                bool wait);

// The devices that the runs' recipes name.
std::set<model::Device> devices_of(const Plan& plan, const std::vector<PlannedRun>& runs);

}  // namespace ablations
