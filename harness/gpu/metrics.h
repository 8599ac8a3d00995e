// The hardware counters that a chip has, and in how many passes a set of them can be read: CUPTI's host half. It needs
// neither a GPU nor a driver, so that a measurement can be planned, and its names checked, on any machine.
//
// The hardware has few counting registers. A metric that does not fit beside the others costs one more pass, and a pass
// is one more execution of the work.
//
// A metric is a base metric plus how its values are combined over the units of the chip: "dram__bytes_read" is a base
// metric, "dram__bytes_read.sum" and "sm__cycles_active.avg.pct_of_peak_sustained_elapsed" are metrics.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct CUpti_Profiler_Host_Object;

namespace harness {

// Chips that this CUPTI knows: "GA100" (A100), "GH100" (H100, H200), ...
std::vector<std::string> counter_chips();

struct BaseMetric {
  std::string name, kind;         // "counter", "ratio", "throughput"
  std::string unit, description;  // as CUPTI has them: "byte"
};

// By kind, then as CUPTI lists them. Throws std::invalid_argument for an unknown chip, with those that are known.
std::vector<BaseMetric> base_metrics(const std::string& chip);

// DRAM and L2 bytes, activity of SMs and their tensor pipes, the GPU's time: these fit into one pass from Ampere on. A
// chip without its own memory has no DRAM counters, so its set has none.
std::vector<std::string> default_metrics(const std::string& chip);

struct ReleaseChip {
  void operator()(CUpti_Profiler_Host_Object* chip) const;
};
using ChipObject = std::unique_ptr<CUpti_Profiler_Host_Object, ReleaseChip>;  // CUPTI's knowledge of a chip

// Metrics that are read together on one chip.
class MetricSet {
 public:
  // `availability`: CUPTI's image of the counters that this device has; empty: all of the chip's. Throws
  // std::invalid_argument for an unknown chip, for no metrics, and for a metric that the chip does not have, with
  // metrics of similar names.
  MetricSet(const std::string& chip, std::vector<std::string> metrics, std::span<const uint8_t> availability = {});

  [[nodiscard]] int64_t passes() const { return passes_; }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] std::vector<std::string> units() const;  // of names(): "byte", "%", "nanosecond"

  // For the range profiler: the names, the plan of the passes, and the values of names() in a range that it has read. A
  // value that the hardware did not give is NaN.
  [[nodiscard]] std::vector<const char*> c_names() const;
  [[nodiscard]] std::span<const uint8_t> config() const { return config_; }
  [[nodiscard]] std::vector<double> evaluate(std::span<const uint8_t> counter_data, size_t range) const;

 private:
  std::vector<std::string> names_;
  std::vector<uint8_t> availability_;
  ChipObject chip_;
  std::vector<uint8_t> config_;
  int64_t passes_ = 0;
};

}  // namespace harness
