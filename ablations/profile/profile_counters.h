// `ladder profile --counters`: what the GPU's hardware counters say of one training step of a recipe. A process of its
// own, after warm-up and without a clock: counting slows a step down, so that none of its times is a measurement.
#pragma once

#include "ablations/run/run.h"
#include "harness/counters.h"
#include "harness/json_file.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ablations {

struct StepCounters {
  std::string chip;        // "GH100"
  harness::Json workload;  // as in records
  int64_t warmup_steps = 0, passes = 0;
  std::vector<harness::CounterValue> values;  // of one step
};

// Trains as the options say, with at least the warm-up that a graph needs, and counts one step for each pass that the
// metrics need (no metrics: the chip's default set); `announce` is told how many, before the first. A step whose recipe
// is a graph is counted as one launch of it. Throws std::invalid_argument for a recipe that is not for a GPU, unknown
// metrics, and more passes than max_passes; harness::Unfit where counters are not to be had.
StepCounters count_step(const RunOptions& options, const std::vector<std::string>& metrics, int64_t max_passes,
                        const std::function<void(const std::string&)>& announce);

// Throws std::invalid_argument where a chip needs more passes for its metrics than are allowed.
void check_passes(const std::string& chip, int64_t passes, int64_t max_passes);

// A document of kind "counters". Its summary has what is asked most, in fixed units, null where the metrics do not
// tell: gpu_time_ms of the range; dram_read_bytes, dram_write_bytes, dram_bytes_per_s (both, over that time), l2_bytes;
// tensor_active_percent and sm_active_percent, shares of the elapsed cycles, averaged over the SMs.
harness::Json counters_json(const RunOptions& options, const StepCounters& counters);

// A document of kind "counters" on a terminal, 80 columns wide where the metrics' names allow it.
std::string counters_table(const harness::Json& counters);

// `ladder profile --list-metrics`: a chip's base metrics; or, where `metrics` are named, their units and the passes
// they need. `chip`: empty for the GPU of this machine. Throws std::invalid_argument for what CUPTI does not know.
harness::Json metrics_json(const std::string& chip, const std::vector<std::string>& metrics);
std::string metrics_table(const harness::Json& list);

}  // namespace ablations
