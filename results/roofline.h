// A roofline as a trace holds it: how far each part of a step is from what the device allows. It is computed by
// ablations/profile/roofline_limits.h.
#pragma once

#include "results/fields.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace results {

struct Limits {
  double flops_per_s = 0, bytes_per_s = 0;
  std::string source;         // "measured: bf16 8192^3, copy of 4 GiB"
  double flops_per_byte = 0;  // where both limits meet
  std::string refuted = {};   // what ran faster than the measured limits, which these replace; empty: nothing

  LADDER_FIELDS(Limits, flops_per_s, bytes_per_s, source, flops_per_byte, (refuted, absent))
};

// Which limit takes the larger part of the time at the limit; `none` where there is no limit.
enum class Bound { compute, memory, none };
template <>
struct Names<Bound> {
  static constexpr std::array list{"compute", "memory", "none"};
};

struct RooflineRow {
  std::string phase;
  std::optional<std::string> part;  // the model's, "clip", "adamw", "other"; absent in the row of a phase
  double flops = 0, bytes = 0;
  double limit_ms = 0;
  Bound bound_by = Bound::none;
  std::optional<double> measured_ms;
  std::optional<double> distance;  // measured over limit; none without either
  std::optional<double> ms_above;  // measured less limit
  // What a roofline's axes show; none where there are no FLOPs or no bytes, or no time in which they were done.
  std::optional<double> flops_per_byte, flops_per_s;

  LADDER_FIELDS(RooflineRow, phase, (part, absent), (flops, from_0), (bytes, from_0), (limit_ms, from_0), bound_by,
                measured_ms, distance, ms_above, flops_per_byte, flops_per_s)
};

struct Roofline {
  Limits limits;
  std::vector<RooflineRow> phases, parts;  // most milliseconds above the limit first, what was not measured last

  LADDER_FIELDS(Roofline, limits, phases, parts)
};

LADDER_COMPILED_ONCE(Roofline)

}  // namespace results
