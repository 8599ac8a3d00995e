// What the command line's flags ask for, as the plan of a study or the options of a run: ladder, machine and defaults
// put together, and everything refused that would fail later.
#pragma once

#include "ablations/plan/modes.h"
#include "ablations/plan/plan.h"
#include "ablations/run/run.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ablations {

// Flags that several commands share. Zero, negative or empty: not given.
struct WorkloadFlags {
  std::string model;
  int64_t B = 0, T = 0, accumulation = 0, positions = 0;
  int64_t steps = 0, warmup = -1;
  int64_t seed = 1;
  int64_t threads = 0;
  std::string data, vocabulary;
  bool deterministic = false;  // on every rung
};

struct AblateFlags {
  WorkloadFlags workload;
  std::string ladder, out;
  DesignFlags design;
  int64_t repeats = 0, order_seed = -1, limit_s = 900, budget_s = 0;
  bool resume = false, json = false;
  bool explain = false;  // trace every rung, too, and say what changed
  std::string shard;     // "2/4": that part of the runs
  bool wait = false;     // for a device that is in use
};

struct RunFlags {
  WorkloadFlags workload;
  std::string recipe, ladder, rung, plan, run_id, record;
  std::string from;          // a record that says everything but where the data is
  bool any_program = false;  // with from: another program than the record's may run
  bool json = false, wait = false;
  bool report_steps = false;  // to file descriptor 3, for the runner
};

// One of trace, diff, counters and list_metrics says what to do.
struct ProfileFlags {
  RunFlags run;  // what to profile
  bool trace = false, counters = false, list_metrics = false, json = false;
  bool roofline = false;          // of the trace
  std::vector<std::string> diff;  // one rung, two rungs, or two files with traces
  std::string metrics, chip;
  int64_t max_passes = 16;
  std::string out;
};

// "gpt2" with a GPU, "gpt2-cpu" without.
std::string ladder_for_this_machine();

// Each throws std::invalid_argument that names the flag or file, its value and what is allowed.
Plan make_plan(const std::string& ladder_name, const AblateFlags& flags);
RunOptions run_options(const RunFlags& flags);

// Everything that would make each of the plan's runs fail, before the first.
void check_workload(const Plan& plan);

// Before the work whose result goes there. Throws std::invalid_argument that names the flag.
void check_can_write(const char* flag, const std::filesystem::path& file);

// The Python that draws reports and runs the peers: $LADDER_PYTHON, else the one this program was built with.
std::string python();

// What setup/data.py fetched.
std::filesystem::path default_vocabulary();
std::filesystem::path default_text();
// The same text's tokens, which a bundle brings; the default where the text is not there.
std::filesystem::path bundled_tokens();

}  // namespace ablations
