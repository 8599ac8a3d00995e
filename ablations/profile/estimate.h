// Estimates before the first run what a plan will take. Time is a step's counted work
// (ablations/techniques/step_table.h) over the rates of this machine. Memory comes from
// ablations/techniques/step_memory.h, which says how exact it is. The time is the least that the work takes: on an
// idle machine a study took twice as long, because memory faults and no operation reaches the measured rates.
#pragma once

#include "ablations/gpt2/options.h"
#include "ablations/plan/make_plan.h"
#include "ablations/techniques/step_memory.h"
#include "files/json_file.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

// What the device of a plan does per second.
struct Speeds {
  std::map<std::string, double> flops;  // of products, by their rate's name (rate_of)
  double bytes = 0;                     // of memory, read and written
};

// A CPU's are measured once in a process, with the plan's threads. A GPU's are half of what its maker says. None for
// a GPU that is not in the table of peaks.
std::optional<Speeds> speeds_for(const Plan& plan);

struct Estimate {
  std::vector<double> steps_s;  // by rung: the steps of one of its runs; 0 where it has none, or no speed is known
  std::vector<double> run_s;    // the same with its process's start
  std::vector<double> bytes;    // by rung: memory of one of its runs
};

Estimate estimate_of(const Plan& plan, const std::optional<Speeds>& speeds);

// Seconds of all these runs, one after the other.
double seconds_of(const Estimate& estimate, const std::vector<PlannedRun>& runs);

// "about 9 minutes, 3.1 GiB"; without a time where none is known.
std::string estimate_text(const Estimate& estimate, const std::vector<PlannedRun>& runs);

// "the largest B that fits is 12", "not even B=1 fits".
std::string fitting_text(int64_t largest_batch);

// Why a run of the plan would not end well. The plan's limit would stop it, or it would take more than `memory` bytes
// (0: not known). In the second case also which B would fit. Empty: nothing is in its way.
std::string reason_against_running(const Plan& plan, const Estimate& estimate, double memory);

// The same with the memory of this machine's GPU, or what its host has available.
std::string reason_against_running_here(const Plan& plan, const Estimate& estimate);

// Whether a step fits into a device's memory, before it runs: its parts (ablations/techniques/step_memory.h), and the
// largest batch that fits.

struct MemoryPlan {
  RunOptions step;
  StepMemory memory;
  std::optional<double> limit;  // bytes that there are; none: not known
  std::string limit_of;         // whose they are: "NVIDIA H100 has 79.10 GiB"; or why they are not known
  int64_t largest_batch = 0;    // that fits; 0: none, or not known

  [[nodiscard]] bool fits() const { return limit && memory.total() <= *limit; }
};

MemoryPlan memory_plan(const RunOptions& step, std::optional<double> limit, const std::string& limit_of);

files::Json to_json(const MemoryPlan& plan);

// A table of the parts, at most 80 columns.
std::string parts_text(const MemoryPlan& plan);

// "B=64 does not fit: its step takes about 119.86 GiB, and NVIDIA H100 has 79.10 GiB; the largest B that fits is 40"
std::string verdict_text(const MemoryPlan& plan);

}  // namespace ablations
