// Turns flags into the plan of a study or the options of a run. Uses the ladder, the machine and the defaults. Refuses
// everything that would fail later.
#pragma once

#include "ablations/gpt2/modes.h"
#include "ablations/gpt2/run.h"
#include "ablations/plan/make_plan.h"
#include "ablations/profile/estimate.h"
#include "cli/command.h"
#include "cli/place.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cli {

// What a study measures and how often; make_plan() makes a plan of it.
struct StudyFlags {
  WorkloadFlags workload;
  std::string ladder;
  DesignFlags design;
  std::optional<int64_t> repeats, order_seed;
  int64_t limit_s = 900;
  bool quick = false;  // the first and the last rung, four repeats
  std::string shard;   // "2/4": that part of the runs
  TypedLine typed;
  bool wait = false;  // until a device in use is free
};

// The step that a process runs; run_options() makes the options of a run of it.
struct StepFlags {
  WorkloadFlags workload;
  std::string recipe, ladder, rung, plan, run_id;
  std::string from;          // a record to run again; the flags say where its data is
  bool any_program = false;  // with from: also if another program made the record
  bool wait = false;
};

void add_data_flags(Command& command, WorkloadFlags& flags);  // --repeat-to and --cold-cache
void add_deterministic_flag(Command& command, WorkloadFlags& flags);
CLI::Option* add_rung_flag(Command& command, std::string& rung);
inline const std::vector<std::string> size_flags{"--model", "--batch", "--context", "--positions", "--accumulation"};

// Each throws std::invalid_argument that names the flag or file, its value and what is allowed. Each throws
// harness::Unfit for a rung or a device that this machine lacks.

// Recipes of `timed` have our own operations that are faster here (timed_here.h). Those `as_listed` have all of them;
// a gate and a shard need the same plan each time.
enum class OwnAre { timed, as_listed };
Plan make_plan(const StudyFlags& flags, OwnAre own = OwnAre::timed);
RunOptions run_options(const StepFlags& flags);

// The step of a rung or a recipe, for `ladder doctor --plan`. Looks for no text. With `memory` the step is for
// a GPU with so many bytes, which need not be here. It is taken to have this compute capability.
inline constexpr int assumed_compute_capability = 90;
RunOptions planned_step(const std::string& plan, StepFlags step, std::optional<int64_t> memory);

// What a study would be on this machine, told before any run.
struct Prospect {
  Plan plan;
  Estimate estimate;
  std::string refusal;  // why `ladder ablate` would not begin it; empty: it would
};

// Throws std::invalid_argument as make_plan does. Times nothing and does not read the text.
Prospect prospect_of(const StudyFlags& flags);

// "can be measured", "not measured" or "not applicable here".
const char* status_text(const Rung& rung);

// "7 rungs, about 13 minutes, 3.1 GiB"; "6 of 7 rungs, ..." where some cannot be measured.
std::string summary_of(const Prospect& prospect);

// A line for each rung, and that summary.
std::string rungs_text(const Prospect& prospect);

// The run of a plan that the flags name.
const PlannedRun& planned_run(const Plan& plan, const StepFlags& flags);

// Throws for everything that would make each of the plan's runs fail. Returns the token file that they read, and makes
// it if the plan names none.
std::string check_workload(const Plan& plan);

// The named ladder; for "" gpt2 on a machine with a GPU, gpt2-fp16 where that has no bfloat16, else gpt2-cpu.
std::string chosen_ladder(const std::string& named);

// CPU threads for --threads, else as many as this process may use cores. Throws std::invalid_argument for more.
int64_t threads_for(std::optional<int64_t> given);

// Below the current folder: where `ladder ablate` puts its studies.
std::filesystem::path default_studies();
// What setup/data.py fetched; files/resources.h has its vocabulary.
std::filesystem::path default_text();
// The tokens of that text, which a bundle includes; the default if the text is missing.
std::filesystem::path bundled_tokens();

// All files that a run reads: those of its flags, and the defaults of flags that are not given.
std::vector<Input> inputs_of(const StepFlags& flags);

}  // namespace cli
