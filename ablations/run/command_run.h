// Makes the runs of a plan of commands (`ladder measure`, gates of commits) from outside.
#pragma once

#include "ablations/run/runner.h"
#include "harness/process/locks.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ablations {

// Takes the locks of the processor and of all GPUs that programs started here may use, as harness::occupy.
harness::Occupied occupy_for_commands(const std::string& command, const std::filesystem::path& at, bool wait);

// Makes the runs of a plan of commands. Throws std::invalid_argument for a plan without.
RunMaker commands(const Plan& plan, const std::filesystem::path& folder);

// This machine with the GPUs that programs started here may use. Without PyTorch's versions: they are the commands'
// own.
Environment environment_of_commands();

}  // namespace ablations
