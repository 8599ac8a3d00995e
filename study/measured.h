// The contents of the records in a study's folder, by rung and repeat, before they are judged.
#pragma once

#include "ablations/plan/make_plan.h"
#include "results/observations.h"
#include "results/study.h"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace study {

// What the analysis takes from one good record.
struct RunData {
  double median_ms = 0;
  double cost = 0;    // what is compared, less is better: the median step, per token if all commands tell theirs
  std::string title;  // as its record has it
  std::string torch;  // PyTorch's version, as its record has it
  std::vector<double> timed_ms, losses;  // losses of steps; NaN where it was not finite
  std::vector<int64_t> loss_steps;       // which step each of these losses is of: from 1 on, or as a command counts
  std::vector<double> data_ms;           // of the timed steps; empty: not known
  std::optional<DataUse> data;
  double page_faults_per_step = 0;  // of a command not counted
  int64_t peak_bytes = 0, tokens_per_step = 0;
  int64_t skipped_steps = 0;  // by the gradient scaler
  double flops_per_step = 0;
  RunMemory memory;
  std::optional<Work> least_work;
  std::vector<Proof> proofs;
  Observations observations;
  std::optional<double> joules_per_token;
  std::optional<Range> sm_clock_mhz;
  double at_power_limit = 0;          // share of the samples
  std::optional<CommandRun> command;  // of a command, whose losses are those of its lines, from the second on
  double window_ms = 0;               // of all timed steps
  bool is_of_log = false;             // it has no pair
  std::string disturbed;              // "r1-02-bf16 throttled: ...; shared: ..."; empty: by nothing that was seen
  // Why nobody saw whether its GPU was throttled or shared; empty: somebody did, or there is none.
  std::string unwatched;
};

// Throws std::invalid_argument for a record with status "ok" that contradicts itself.
RunData run_data(const Record& record);

// Why a record's number does not count: a failed run, an unproven optimization, or a loss that is not finite. Empty if
// it counts.
std::string why_no_number(const Record& record);

using RunsByRepeat = std::map<int64_t, RunData>;

struct RungFailure {
  std::string reason;          // "run r1-02-bf16: killed by signal 9 (Killed)"
  bool out_of_memory = false;  // all of the rung's failures were
};

struct Measured;
// Whether each command prints one number in all of its runs, two or more. Then nobody knows what chance makes of it.
bool repeat_themselves(const Plan& plan, const Measured& measured);
inline constexpr const char* one_number_each =
    "every run of a command has the same number, so it is not known what chance makes of it: let {seed} in the "
    "command be the seed";

// When a run began and how long it took.
struct Made {
  std::string started;  // UTC
  std::string boot;     // the start of the machine that `since_boot_s` counts from; empty: the record does not say
  double since_boot_s = 0, duration_s = 0;
};

struct Measured {
  std::vector<RunsByRepeat> runs_of;          // one for each rung
  std::map<size_t, RungFailure> failures;     // by rung
  std::vector<StudyRun> runs;                 // in the order in which they are made
  std::optional<Environment> environment;     // of this program's own records, the first rung's first; none without one
  std::optional<Workload> workload;           // likewise
  std::map<int64_t, std::vector<Made>> made;  // for each repeat its runs: failed ones and those made again, too
  int64_t runs_ok = 0;
  int64_t not_made_again = 0;  // of them, disturbed ones that were made once only
  std::string first_started;   // of the earliest record; empty without one
  std::string last_started;
};

// Throws std::invalid_argument for a record that cannot be read or contradicts itself.
Measured read_records(const Plan& plan, const std::filesystem::path& folder);

}  // namespace study
