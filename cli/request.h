// Turns the command line's flags into the plan of a study or the options of a run: from the ladder, the machine and the
// defaults. Refuses everything that would fail later.
#pragma once

#include "ablations/plan/plan.h"
#include "ablations/run/run.h"
#include "cli/flags.h"
#include "cli/place.h"

#include <filesystem>
#include <string>

namespace ablations {

// Each throws std::invalid_argument that names the flag or file, its value and what is allowed, and harness::Unfit for
// a rung or a device that this machine does not have. check_workload checks the runs of a plan, once it is known which
// of them will be made, and names the token file that they read.
// The plan's and a rung's recipe have those of our own operations that are faster here (timed_here.h). A gate's and a
// shard's have all, because its plan must be the same each time.
enum class OwnAre { timed, as_listed };
Plan make_plan(const AblateFlags& flags, OwnAre own = OwnAre::timed);
RunOptions run_options(const RunFlags& flags);
// The step that --plan asks about; its device need not be here, and no text is looked for. A GPU that is not here is
// taken to have this compute capability.
inline constexpr int assumed_compute_capability = 90;
RunOptions step_options(const DoctorFlags& flags);
// The run of a plan that the flags name.
const PlannedRun& planned_run(const Plan& plan, const RunFlags& flags);

// Throws in the same way for everything that would make each of the plan's runs fail. Returns the token file that they
// read, and makes it if the plan names none.
std::string check_workload(const Plan& plan);

// The named ladder; for "" gpt2 on a machine with a GPU, gpt2-fp16 where that has no bfloat16, else gpt2-cpu.
std::string chosen_ladder(const std::string& named);

// All files that a run reads: those of its flags, and the defaults of flags that are not given.
std::vector<Input> inputs_of(const RunFlags& flags);

}  // namespace ablations
