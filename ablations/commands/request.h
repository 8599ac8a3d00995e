// What the command line's flags ask for, as the plan of a study or the options of a run: ladder, machine and defaults
// put together, and everything refused that would fail later.
#pragma once

#include "ablations/commands/flags.h"
#include "ablations/plan/plan.h"
#include "ablations/run/run.h"

#include <filesystem>
#include <string>

namespace ablations {

// Each throws std::invalid_argument that names the flag or file, its value and what is allowed, and harness::Unfit for
// a rung or a device that is not to be had here. Whether the runs of a plan can be made is asked by check_workload,
// when it is known which of them are; the token file that they read is named by it, too.
Plan make_plan(const AblateFlags& flags);
RunOptions run_options(const RunFlags& flags);
// The run of a plan that the flags name.
const PlannedRun& planned_run(const Plan& plan, const RunFlags& flags);

// Everything that would make each of the plan's runs fail, before the first: throws like those. Returns the token file
// that they read, which it makes where the plan names none.
std::string check_workload(const Plan& plan);

}  // namespace ablations
