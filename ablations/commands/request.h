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
// when it is known which of them are.
Plan make_plan(const AblateFlags& flags);
RunOptions run_options(const RunFlags& flags);
// The run of a plan that the flags name.
const PlannedRun& planned_run(const Plan& plan, const RunFlags& flags);

// Everything that would make each of the plan's runs fail, before the first: throws like those.
void check_workload(const Plan& plan);

// Before the work whose result goes there. Throws std::invalid_argument that names the flag.
void check_can_write(const char* flag, const std::filesystem::path& file);

// Before anything is computed for it. Throws std::invalid_argument where --out names a file.
void check_folder(const std::filesystem::path& out);
// The same without making it, also where it lies where nothing can be written.
void check_can_make(const std::filesystem::path& out);

// That what a command writes does not take the place of what it reads.
void check_not_same(const char* flag, const std::filesystem::path& written, const char* of,
                    const std::filesystem::path& read);
// The same of all files that a run reads.
void check_not_read(const char* flag, const std::filesystem::path& written, const RunFlags& flags);

}  // namespace ablations
