// Runs the commands of `ladder measure` from outside: starts each in a process group of its own, reads the steps that
// it prints, watches the machine while they are timed, and ends it when there are enough of them.
//
// To print a loss, the device must have computed it. So the time between two lines with a loss is honest on a GPU, too.
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

// A run is timed over so many intervals between lines at least.
constexpr int64_t least_intervals = 8;

// In a record: of lines of the first read, before which there is no other. They are of the warm-up.
constexpr double least_step_ms = 1e-6;

// Tries a rung's command as its runs will be made, with cold caches. What it prints goes to FOLDER/logs/trial-NAME.log.
// Returns none if it was interrupted. Throws std::invalid_argument, with the end of what it printed, if it does not
// make its steps. `code` gets the files of code that it reads: Python's, executables, libraries.
std::optional<Trial> tried(const Plan& plan, size_t rung, const std::filesystem::path& folder,
                           std::set<std::filesystem::path>* code = nullptr);

// What that try printed.
std::filesystem::path trial_log(const Plan& plan, size_t rung, const std::filesystem::path& folder);

// Runs a rung's command once more until client/look has written `file`, what it does in PyTorch. Returns why there is
// none; empty: there is. That run is not timed.
std::string look_at(const Plan& plan, size_t rung, const std::filesystem::path& folder,
                    const std::filesystem::path& file);

// Milliseconds of a step, for each line but the first, from lines' steps, which go up, and the times at which they were
// read, in seconds. Lines of one read share the time since the read before.
std::vector<double> step_ms_of(const std::vector<int64_t>& steps, const std::vector<double>& seconds);

// What a run of the command will take, by its trial. Its first step is warm then.
double run_s(const Plan& plan, const Trial& trial);

// Takes the locks of the processor and of all GPUs that programs started here may use, as harness::occupy.
harness::Occupied occupy_for_commands(const std::string& command, const std::filesystem::path& at, bool wait);

// Prints the end of what a program printed on standard error.
void show_end(const std::filesystem::path& log);

// Makes the runs of a plan of commands. Throws std::invalid_argument for a plan without.
RunMaker commands(const Plan& plan, const std::filesystem::path& folder);

// This machine with the GPUs that programs started here may use. Without PyTorch's versions: they are the commands'
// own.
Environment environment_of_commands();

}  // namespace ablations
