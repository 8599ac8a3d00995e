// A roofline as a trace holds it: how far each part of a step is from what the device allows. profile/roofline.h says
// how it is computed.
#pragma once

#include "results/fields.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

struct Limits {
  double flops_per_s = 0, bytes_per_s = 0;
  std::string source;                    // "measured: bf16 8192^3, copy of 4 GiB"
  std::optional<double> flops_per_byte;  // where both limits meet; absent in older traces
  std::string refuted = {};  // what ran faster than the measured limits, which these replace; empty: nothing

  static void fields(auto&& field) {
    field("flops_per_s", &Limits::flops_per_s);
    field("bytes_per_s", &Limits::bytes_per_s);
    field("source", &Limits::source);
    field("flops_per_byte", &Limits::flops_per_byte, None::absent);
    field("refuted", &Limits::refuted, None::default_absent);
  }
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
  // What a roofline's axes show; none where there are no FLOPs or no bytes, or no time in which they were done. Absent
  // in older traces.
  std::optional<std::optional<double>> flops_per_byte, flops_per_s;

  static void fields(auto&& field) {
    field("phase", &RooflineRow::phase);
    field("part", &RooflineRow::part, None::absent);
    field("flops", &RooflineRow::flops);
    field("bytes", &RooflineRow::bytes);
    field("limit_ms", &RooflineRow::limit_ms);
    field("bound_by", &RooflineRow::bound_by);
    field("measured_ms", &RooflineRow::measured_ms);
    field("distance", &RooflineRow::distance);
    field("ms_above", &RooflineRow::ms_above);
    field("flops_per_byte", &RooflineRow::flops_per_byte, None::absent);
    field("flops_per_s", &RooflineRow::flops_per_s, None::absent);
  }
};

struct Roofline {
  Limits limits;
  std::vector<RooflineRow> phases, parts;  // most milliseconds above the limit first, what was not measured last

  static void fields(auto&& field) {
    field("limits", &Roofline::limits);
    field("phases", &Roofline::phases);
    field("parts", &Roofline::parts);
  }
};

// Compiled once, in the source beside this.
extern template files::Json json_of(const Roofline&);
extern template Roofline value_from(const files::Json&, const std::string&);

}  // namespace ablations
