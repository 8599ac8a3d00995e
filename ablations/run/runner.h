// Carries out a plan: one child process for each run, records into the study's folder (study_folder.h). A failure of a
// child costs only its own run; a failure of the runner costs only the running child.
#pragma once

#include "ablations/plan/plan.h"
#include "ablations/run/child.h"
#include "harness/process/process.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace ablations {

struct Outcome {
  bool interrupted = false;
  bool some_failed = false;
  size_t not_made = 0;        // runs for which the budget left no time
  size_t not_made_again = 0;  // disturbed runs that it left as they were
};

// `plan` is FOLDER/plan.json's, or the first repeats of it. Makes the runs of its shard that have no successful record
// yet, or one that is flagged and was not made again, in the plan's order (under a budget: in the first repeat those
// first that others are compared with); a gate's only up to the end of the repeat in which one fails, for that is its
// verdict. No run is begun more than budget_s seconds after the call; 0: no such limit. A run whose record is flagged
// is made a second time, once, after the others of its repeat; where that ends well it takes the first one's place,
// flagged or not. Where most runs up to the end of the repeat were flagged the first time, its runs are not made again,
// then or later, which is said once. Throws std::invalid_argument while another runner works in the folder, and for a
// record that is not of its plan, harness::Unfit where runs are missing and the others were made on another machine or
// by another program, and for a run that was: of a text, or of a gate's program, that was replaced meanwhile. run_s:
// how long a run of each rung will take, as was estimated, for the time left; empty: not known.
Outcome carry_out(const Plan& plan, const std::filesystem::path& folder, const Programs& programs, double budget_s,
                  const std::vector<double>& run_s = {});

// Throws harness::Unfit where carry_out would, because of the machine or the program, before anything is written.
void check_goes_on_here(const Plan& plan, const std::filesystem::path& folder);

// Traces a rung of the plan in FOLDER/plan.json that has runs, in a process of its own: trace_file, and a timeline
// beside it. Returns how the process ended; what it printed is in FOLDER/logs.
harness::ChildResult trace_rung(const Plan& plan, const std::filesystem::path& folder, size_t rung,
                                const Programs& programs);

// Traces every planned rung of a cumulative ladder that has no trace yet, the last rung first. None is begun after
// `until`, which is told. A trace that fails costs itself only and is told on standard error. Returns false when
// interrupted.
bool trace_rungs(const Plan& plan, const std::filesystem::path& folder, const Programs& programs,
                 std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max());

}  // namespace ablations
