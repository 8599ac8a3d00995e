// How far each part of a step is from what the device allows: measured time over the time at the limit, which is the
// larger of its FLOPs over the matrix rate and its least bytes over the memory's rate (Williams, Waterman and Patterson
// 2009, "Roofline"). Both counts are model/costs.h's.
//
// The surprising thing: a distance below 1 is no mistake. What the last part wrote may still lie in the cache, and
// then it is not read from memory.
#pragma once

#include "ablations/profile/rates.h"
#include "harness/json_file.h"
#include "model/costs.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ablations {

// (phase, part) as in a trace, part "" for what no part asked for: ms per step. What the costs do not know has no
// limit: all of its time is above it.
using MeasuredMs = std::map<std::pair<std::string, std::string>, double>;

// Of a trace's summary (results/schemas/trace.v1.json).
MeasuredMs measured_by_part(const harness::Json& summary);

struct Limits {
  double flops_per_s, bytes_per_s;
  std::string source;  // "measured: bf16 8192^3, copy of 4 GiB"
};

// What the machine reached; none where the recipe's kind of product was not measured.
std::optional<Limits> limits_from_rates(const model::Recipe& recipe, const Rates& rates);

struct RooflineRow {
  std::string phase, part;  // part: the model's, "clip", "adamw", "other"; "" in the row of a phase
  double flops = 0, bytes = 0;
  double compute_ms = 0, memory_ms = 0;  // at the limit, of the calls that compute or memory binds
  std::optional<double> measured_ms;

  [[nodiscard]] double limit_ms() const { return compute_ms + memory_ms; }
  // Which binds for the larger part of the time at the limit: "compute", "memory"; "none" where there is no limit.
  [[nodiscard]] std::string bound_by() const;
  // Measured over limit; none without either.
  [[nodiscard]] std::optional<double> distance() const;
  // What a roofline's axes show; none where there are no FLOPs or no bytes, or no time in which they were done.
  [[nodiscard]] std::optional<double> flops_per_byte() const;
  [[nodiscard]] std::optional<double> flops_per_s() const;
  // 0 where nothing was measured.
  [[nodiscard]] double ms_above() const { return measured_ms ? *measured_ms - limit_ms() : 0; }
};

struct Roofline {
  Limits limits;
  std::vector<RooflineRow> phases, parts;  // most milliseconds above the limit first, what was not measured last
};

// The limit of a phase is the sum of its parts' limits, because they are kernels of their own. Its measured time is all
// of its parts', also of those that have no costs; a part fused into another stands there without a time.
// Throws std::invalid_argument for limits that are not positive.
Roofline roofline(const std::vector<model::Cost>& costs, const Limits& limits, const MeasuredMs& measured);

harness::Json to_json(const Roofline& roofline);

// At most 80 columns.
std::string roofline_table(const Roofline& roofline);

}  // namespace ablations
