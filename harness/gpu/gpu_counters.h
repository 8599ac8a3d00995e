// Reads the GPU's hardware counters over a piece of work, with CUPTI's range profiler. There is one user range. The
// work is repeated if one pass cannot hold all metrics (CUPTI_UserReplay). The counters belong to the context, not to a
// kernel. So launches of other threads and the kernels of a graph launch are counted, too; tests/cuda checks that.
//
// With several passes the values come from several executions of the work, so these must be alike. Do not count in a
// process that is timed or traced: counting slows it down.
#pragma once

#include "harness/gpu/metrics.h"

#include <cuda.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace harness {

struct CounterValue {
  std::string metric;
  double value;  // NaN: the hardware gave none
  std::string unit;
};

// The chip of the current CUDA device: "GH100". Initializes CUPTI's profiling half. Throws Unfit without a device, or
// where the machine gives no counters.
std::string current_chip();

class Counters {
 public:
  // Counts on the current CUDA device; makes its context where there is none yet. No metrics: the chip's default set.
  // Throws Unfit with reason and remedy where it cannot count (no driver, no permission, another tool). Throws
  // std::invalid_argument for a metric that the device does not have.
  explicit Counters(std::vector<std::string> metrics);
  Counters(const Counters&) = delete;  // the device has one set of counters
  Counters& operator=(const Counters&) = delete;

  [[nodiscard]] const std::string& chip() const { return chip_; }
  [[nodiscard]] int64_t passes() const { return metrics_->passes(); }

  // Executes `work` passes() times, waiting for the device before and after each. Returns the values in the order of
  // the metrics' names. Afterwards everything that it switched on is off, also when `work` throws.
  std::vector<CounterValue> measure(const std::function<void()>& work);

 private:
  CUcontext context_;
  std::string chip_;
  std::optional<MetricSet> metrics_;
};

}  // namespace harness
