// Turns flags into the plan of a study or the options of a run. Uses the ladder, the machine and the defaults. Refuses
// everything that would fail later.
#pragma once

#include "ablations/plan/make_plan.h"
#include "ablations/run/run.h"
#include "cli/flags.h"
#include "cli/place.h"

#include <filesystem>
#include <string>

namespace cli {

// Each throws std::invalid_argument that names the flag or file, its value and what is allowed. Each throws
// harness::Unfit for a rung or a device that this machine lacks.

// Recipes of `timed` have our own operations that are faster here (timed_here.h). Those `as_listed` have all of them;
// a gate and a shard need the same plan each time.
enum class OwnAre { timed, as_listed };
Plan make_plan(const StudyFlags& flags, OwnAre own = OwnAre::timed);
RunOptions run_options(const StepFlags& flags);

// The step of a rung or a recipe, for `ladder doctor --plan`. Looks for no text. With `memory` above 0 the step is for
// a GPU with so many bytes, which need not be here. It is taken to have this compute capability.
inline constexpr int assumed_compute_capability = 90;
RunOptions planned_step(const std::string& plan, StepFlags step, int64_t memory);

// The run of a plan that the flags name.
const PlannedRun& planned_run(const Plan& plan, const StepFlags& flags);

// Throws for everything that would make each of the plan's runs fail. Returns the token file that they read, and makes
// it if the plan names none.
std::string check_workload(const Plan& plan);

// The named ladder; for "" gpt2 on a machine with a GPU, gpt2-fp16 where that has no bfloat16, else gpt2-cpu.
std::string chosen_ladder(const std::string& named);

// All files that a run reads: those of its flags, and the defaults of flags that are not given.
std::vector<Input> inputs_of(const StepFlags& flags);

}  // namespace cli
