// `ladder profile --counters`: the GPU's hardware counters of one training step of a recipe. It runs in its own
// process, after warm-up and without a clock: counting slows a step down, so its times are not measurements.
#pragma once

#include "ablations/gpt2/run.h"
#include "files/json_file.h"
#include "harness/gpu/gpu_counters.h"
#include "harness/gpu/metrics.h"
#include "results/trace.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ablations {

struct StepCounters {
  std::string chip;  // "GH100"
  Workload workload;
  int64_t warmup_steps = 0, passes = 0;
  std::vector<harness::CounterValue> values;  // of one step
  std::vector<std::string> flags = {};        // what disturbed it
};

// Trains as the options say, with at least the warm-up that a graph needs. Then counts one step for each pass that the
// metrics need (no metrics: the chip's default set). `announce` is told how many before the first. A step whose recipe
// is a graph is counted as one launch of it. Throws std::invalid_argument for a recipe that is not for a GPU, unknown
// metrics, and more passes than max_passes. Throws harness::Unfit without counters.
StepCounters count_step(const RunOptions& options, const std::vector<std::string>& metrics, int64_t max_passes,
                        const std::function<void(const std::string&)>& announce);

// Throws std::invalid_argument where a chip needs more passes for its metrics than are allowed.
void check_passes(const std::string& chip, int64_t passes, int64_t max_passes);

CountersDocument counters_document(const RunOptions& options, const StepCounters& counters);

// On a terminal, 80 columns wide where the metrics' names allow it.
std::string counters_table(const CountersDocument& counters);

// `ladder profile --list-metrics`: a chip's base metrics. Where metrics were named: these and the passes they need.
struct MetricsList {
  struct Metric {
    std::string name, unit;
  };

  std::string chip;
  std::vector<harness::BaseMetric> base_metrics;
  std::vector<Metric> metrics;  // empty: base_metrics are listed
  int64_t passes = 0;
};

// `chip`: empty for the GPU of this machine. Throws std::invalid_argument for what CUPTI does not know.
MetricsList list_metrics(const std::string& chip, const std::vector<std::string>& metrics);
files::Json to_json(const MetricsList& list);
std::string metrics_table(const MetricsList& list);

}  // namespace ablations
