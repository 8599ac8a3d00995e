// One planned run in its own process: how it is called, and what it returns. A failure of the child costs only its own
// run.
#pragma once

#include "ablations/plan/make_plan.h"
#include "ablations/run/runner.h"
#include "harness/process/process.h"

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ablations {

// Who makes the runs: this program itself, and a Python with PyTorch for the peers'.
struct Programs {
  std::filesystem::path ladder;
  std::vector<std::string> python;                          // with its flags
  std::map<std::string, std::filesystem::path> peers = {};  // by PeerName::torch: the user's Pythons
};

// Makes a study's or gate's runs, one child process for each. A run without a record of its child says why. `folder`:
// the study's, with records/ and logs/ in it.
RunMaker children(const Plan& plan, const std::filesystem::path& folder, Programs programs);

// The script that does the work of a planned run in PyTorch.
std::filesystem::path peer_script();

// Variables of every peer's process: without the libraries of this program's PyTorch, which another one must not load.
std::vector<std::string> environment_of_peers();

// Looks at a rung's first steps in a process of its own, which writes `file` (rung_look.h). rounding: bits and seed,
// "8+1"; empty: none. Returns why there is no file; empty: there is.
std::string look_at_rung(const Plan& plan, const std::filesystem::path& folder, size_t rung, const Programs& programs,
                         const std::filesystem::path& file, const std::string& rounding);

// Traces a rung of FOLDER/plan.json in a process of its own. The rung must have runs. Writes trace_file, and a timeline
// beside it. Returns how the process ended; what it printed is in FOLDER/logs.
harness::ChildResult trace_rung(const Plan& plan, const std::filesystem::path& folder, size_t rung,
                                const Programs& programs);

// Traces every planned rung of a cumulative ladder that has no trace yet, the last rung first. None begins after
// `until`, which is printed. A failed trace is printed on standard error and stops no other. Returns false when
// interrupted.
bool trace_rungs(const Plan& plan, const std::filesystem::path& folder, const Programs& programs,
                 std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max());

}  // namespace ablations
