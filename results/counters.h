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

namespace results {

struct CountedDevice {
  std::optional<std::string> name;
  std::string chip;  // "GH100"

  LADDER_FIELDS(CountedDevice, name, chip)
};

struct CountedMetric {
  std::optional<double> value;  // none: the hardware gave none
  std::string unit;

  LADDER_FIELDS(CountedMetric, value, unit)
};

// The most useful figures, in fixed units; none if the metrics do not give them.
struct CounterSummary {
  std::optional<double> gpu_time_ms;  // of the range
  std::optional<double> dram_read_bytes, dram_write_bytes;
  std::optional<double> dram_bytes_per_s;  // both, over that time
  std::optional<double> l2_bytes;
  std::optional<double> tensor_active_percent, sm_active_percent;  // of the elapsed cycles, averaged over the SMs

  LADDER_FIELDS(CounterSummary, gpu_time_ms, dram_read_bytes, dram_write_bytes, dram_bytes_per_s, l2_bytes,
                tensor_active_percent, sm_active_percent)
};

struct CountersDocument {
  static constexpr auto kind = "counters";
  static constexpr auto about =
      "Hardware counters of one training step, read in a process of its own: no time in it is a measurement of speed";

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

  LADDER_FIELDS(CountersDocument, id, created, recipe, optimizations, workload, device, (warmup_steps, from_0),
                (passes, from_1), (metrics, some), summary, (flags, absent), environment)
};

LADDER_COMPILED_ONCE(CountersDocument)

}  // namespace results
