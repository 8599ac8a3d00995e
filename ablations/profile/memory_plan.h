// Whether a step fits into a device's memory, before it runs: its parts (ablations/techniques/step_memory.h), and the
// largest batch that fits.
#pragma once

#include "ablations/run/options.h"
#include "ablations/techniques/step_memory.h"
#include "files/json_file.h"

#include <cstdint>
#include <optional>
#include <string>

namespace ablations {

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
