// Carries out a plan: one child process for each run, records into the study's folder (study_folder.h). A failure of a
// child costs only its own run; a failure of the runner costs only the running child.
#pragma once

#include "ablations/plan/make_plan.h"
#include "results/record.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace ablations {

// Who makes the runs (child.h, command_trial.h).
struct RunMaker {
  // A run's record, also of one that failed; none if it was interrupted. `on_line` gets "7 11": 7 of 11 steps are done.
  std::function<std::optional<Record>(const PlannedRun&, const std::function<void(std::string_view)>& on_line)> make;
  Environment here;  // what its records will say of machine and software
};

struct Outcome {
  bool interrupted = false;
  bool some_failed = false;
  size_t not_made = 0;        // runs for which the budget left no time
  size_t not_made_again = 0;  // disturbed runs that it left as they were
};

// Whether no more runs are needed, asked after each repeat with the number of those that are there.
using IsEnough = std::function<bool(int64_t repeats)>;

// Makes the runs of the plan's shard that have no good record yet, in the plan's order. `plan` is FOLDER/plan.json or
// its first repeats. run_s: the estimated seconds of a run, for each rung; empty: not known. Budget: no run begins more
// than budget_s seconds after the call; 0: no limit. With a budget the first repeat begins with the rungs that others
// are compared with. A gate ends with the repeat in which a run fails, because that is its verdict. A flagged run is
// made once more, after the others of its repeat. If the second run ends well, its record replaces the first. If most
// runs so far were flagged, no run of the repeat is made again; this is printed once. Throws std::invalid_argument
// while another runner works in the folder, and for a record of another plan. Throws harness::Unfit if the other runs
// need another machine or program. Throws it, too, if the text or a gate's program was replaced meanwhile.
Outcome carry_out(const Plan& plan, const std::filesystem::path& folder, const RunMaker& maker, double budget_s,
                  const std::vector<double>& run_s = {}, const IsEnough& is_enough = {});

// Throws harness::Unfit for another machine or program, as carry_out does, before anything is written.
void check_goes_on_here(const Plan& plan, const std::filesystem::path& folder, const Environment& here);

}  // namespace ablations
