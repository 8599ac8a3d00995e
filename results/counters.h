// What a GPU's hardware counters say of one training step (results/schemas/counters.v1.json, which says what the fields
// mean).
#pragma once

#include "files/json_file.h"
#include "results/environment.h"
#include "results/fields.h"
#include "results/workload.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

struct CountedDevice {
  std::optional<std::string> name;
  std::string chip;  // "GH100"

  static void fields(auto&& field) {
    field("name", &CountedDevice::name);
    field("chip", &CountedDevice::chip);
  }
};

struct CountedMetric {
  std::optional<double> value;  // none: the hardware gave none
  std::string unit;

  static void fields(auto&& field) {
    field("value", &CountedMetric::value);
    field("unit", &CountedMetric::unit);
  }
};

// The most useful figures, in fixed units; none if the metrics do not give them.
struct CounterSummary {
  std::optional<double> gpu_time_ms;  // of the range
  std::optional<double> dram_read_bytes, dram_write_bytes;
  std::optional<double> dram_bytes_per_s;  // both, over that time
  std::optional<double> l2_bytes;
  std::optional<double> tensor_active_percent, sm_active_percent;  // of the elapsed cycles, averaged over the SMs

  static void fields(auto&& field) {
    field("gpu_time_ms", &CounterSummary::gpu_time_ms);
    field("dram_read_bytes", &CounterSummary::dram_read_bytes);
    field("dram_write_bytes", &CounterSummary::dram_write_bytes);
    field("dram_bytes_per_s", &CounterSummary::dram_bytes_per_s);
    field("l2_bytes", &CounterSummary::l2_bytes);
    field("tensor_active_percent", &CounterSummary::tensor_active_percent);
    field("sm_active_percent", &CounterSummary::sm_active_percent);
  }
};

struct CountersDocument {
  static constexpr auto kind = "counters";

  std::string id, created;
  files::Json recipe;  // as a record has it
  std::vector<std::string> optimizations;
  Workload workload;
  CountedDevice device;
  int64_t warmup_steps = 0, passes = 0;
  std::map<std::string, CountedMetric> metrics;
  CounterSummary summary;
  std::vector<std::string> flags;  // what disturbed it, in the words of a record
  Environment environment;

  static void fields(auto&& field) {
    field("id", &CountersDocument::id);
    field("created", &CountersDocument::created);
    field("recipe", &CountersDocument::recipe);
    field("optimizations", &CountersDocument::optimizations);
    field("workload", &CountersDocument::workload);
    field("device", &CountersDocument::device);
    field("warmup_steps", &CountersDocument::warmup_steps);
    field("passes", &CountersDocument::passes);
    field("metrics", &CountersDocument::metrics);
    field("summary", &CountersDocument::summary);
    field("flags", &CountersDocument::flags, None::default_absent);
    field("environment", &CountersDocument::environment);
  }
};

// Compiled once, in the source beside this.
extern template files::Json json_of(const CountersDocument&);
extern template CountersDocument value_from(const files::Json&, const std::string&);

}  // namespace ablations
