// The trial of a command before its runs: which numbers it prints, how long it takes, what it does in PyTorch.
#pragma once

#include "ablations/run/runner.h"
#include "harness/process/locks.h"
#include "results/plan.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ablations {

// The command of a rung. Throws std::invalid_argument if it has none.
const TypedCommand& command_of(const Plan& plan, size_t rung);

// Tries a rung's command as its runs will be made, with cold caches. What it prints goes to FOLDER/logs/trial-NAME.log.
// Returns none if it was interrupted. Throws std::invalid_argument, with the end of what it printed, if it does not
// make its steps. `code` gets the files of code that it reads: Python's, executables, libraries.
std::optional<Trial> tried(const Plan& plan, size_t rung, const std::filesystem::path& folder,
                           std::set<std::filesystem::path>* code = nullptr);

// What that try printed.
std::filesystem::path trial_log(const Plan& plan, size_t rung, const std::filesystem::path& folder);

// Runs a rung's command once more until client/look has written `file`, what it does in PyTorch. Returns why there is
// none; empty: there is. That run is not timed. rounding: as LADDER_LOOK_ROUNDING of client/look; empty: as it is.
std::string look_at(const Plan& plan, size_t rung, const std::filesystem::path& folder,
                    const std::filesystem::path& file, const std::string& rounding = "");

// What a run of the command will take, by its trial. Its first step is warm then.
double run_s(const Plan& plan, const Trial& trial);

// Prints the end of what a program printed on standard error.
void show_end(const std::filesystem::path& log);

// Makes the runs of a plan of commands (`ladder measure`, gates of commits) from outside.

// Takes the locks of the processor and of all GPUs that programs started here may use, as harness::occupy.
harness::Occupied occupy_for_commands(const std::string& command, const std::filesystem::path& at, bool wait);

// So many runs of each command go on after their timed steps (study/tricks.h).
constexpr int64_t runs_that_go_on = 3;

// Makes the runs of a plan of commands. Throws std::invalid_argument for a plan without. code: what each rung's trial
// read, where it was asked for; no other rung's run may change it.
RunMaker commands(const Plan& plan, const std::filesystem::path& folder,
                  std::vector<std::set<std::filesystem::path>> code = {});

// This machine with the GPUs that programs started here may use. Without PyTorch's versions: they are the commands'
// own.
Environment environment_of_commands();

}  // namespace ablations
