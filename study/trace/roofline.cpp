#include "study/trace/roofline.h"

#include "harness/machine/peaks.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

namespace study {

namespace {

constexpr const char* row_format = "{:<9.9} {:<15.15} {:>10} {:>10} {:>9} {:>10} {:>11}\n";

std::string part_of(const Cost& cost) { return cost.part.empty() ? cost.op : cost.part; }

// What work of a phase is that belongs to no part: the trainer's operation, where the phase is one.
std::string unnamed_in(const std::vector<Cost>& costs, const std::string& phase) {
  const auto known =
      std::ranges::find_if(costs, [&](const Cost& cost) { return cost.phase == phase && cost.part.empty(); });
  return known == costs.end() ? "other" : known->op;
}

// A row that is being added up: its time at the limit, of the calls that compute or memory binds.
struct RooflineSum {
  RooflineRow row;
  double compute_ms = 0, memory_ms = 0;
};

RooflineSum& sum_of(std::vector<RooflineSum>& sums, const std::string& phase, const std::optional<std::string>& part) {
  const auto known = std::ranges::find_if(
      sums, [&](const RooflineSum& sum) { return sum.row.phase == phase && sum.row.part == part; });
  return known != sums.end() ? *known : sums.emplace_back(RooflineSum{.row = {.phase = phase, .part = part}});
}

std::optional<double> ratio(double value, double of) {
  return value > 0 && of > 0 ? std::optional(value / of) : std::nullopt;
}

std::vector<RooflineRow> rows_of(const std::vector<RooflineSum>& sums) {
  std::vector<RooflineRow> rows;
  for (const auto& [sum, compute_ms, memory_ms] : sums) {
    RooflineRow& row = rows.emplace_back(sum);
    row.limit_ms = compute_ms + memory_ms;
    if (row.limit_ms > 0) row.bound_by = compute_ms >= memory_ms ? Bound::compute : Bound::memory;
    if (row.measured_ms && row.limit_ms > 0) row.distance = *row.measured_ms / row.limit_ms;
    if (row.measured_ms) row.ms_above = *row.measured_ms - row.limit_ms;
    row.flops_per_byte = ratio(row.flops, row.bytes);
    row.flops_per_s = ratio(1e3 * row.flops, row.measured_ms.value_or(0));
  }
  std::ranges::stable_sort(rows, std::greater(), &RooflineRow::ms_above);  // none is less than any
  return rows;
}

// "1.22x", at most 10 columns.
std::string distance_text(const std::optional<double>& distance) {
  if (!distance) return "-";
  return (*distance < 99999.5 ? number(*distance) : fmt::format("{:.1e}", *distance)) + "x";
}

std::string rows_text(const std::vector<RooflineRow>& rows) {
  const auto number_or_none = [](const std::optional<double>& value) {
    return value ? (*value < 0 ? "-" : "") + number(std::abs(*value)) : "-";
  };
  std::string text;
  for (const RooflineRow& row : rows) {
    text += fmt::format(row_format, row.phase, row.part.value_or("all"), number_or_none(row.measured_ms),
                        row.limit_ms > 0 ? number(row.limit_ms) : "-",
                        row.bound_by == Bound::none ? "-" : name_of(row.bound_by), distance_text(row.distance),
                        number_or_none(row.ms_above));
  }
  return text;
}

}  // namespace

MeasuredMs measured_by_part(const TraceSummary& summary) {
  MeasuredMs measured;
  for (const PartTime& row : summary.by_part) measured[{row.phase, row.part}] += row.ms;
  return measured;
}

Roofline roofline(const std::vector<Cost>& costs, const Limits& limits, const MeasuredMs& measured) {
  if (!(limits.flops_per_s > 0) || !(limits.bytes_per_s > 0)) {
    throw std::invalid_argument(fmt::format("roofline: limits must be above 0, got {} FLOP/s and {} bytes/s",
                                            limits.flops_per_s, limits.bytes_per_s));
  }
  std::vector<RooflineSum> phases, parts;
  for (const Cost& cost : costs) {
    const double compute_ms = 1e3 * cost.flops / limits.flops_per_s, memory_ms = 1e3 * cost.bytes / limits.bytes_per_s;
    for (RooflineSum* sum : {&sum_of(phases, cost.phase, {}), &sum_of(parts, cost.phase, part_of(cost))}) {
      sum->row.flops += cost.flops;
      sum->row.bytes += cost.bytes;
      (compute_ms >= memory_ms ? sum->compute_ms : sum->memory_ms) += std::max(compute_ms, memory_ms);
    }
  }
  for (const auto& [key, ms] : measured) {
    const auto& [phase, part] = key;
    for (RooflineSum* sum :
         {&sum_of(phases, phase, {}), &sum_of(parts, phase, part.empty() ? unnamed_in(costs, phase) : part)}) {
      sum->row.measured_ms = sum->row.measured_ms.value_or(0) + ms;
    }
  }
  Roofline result{.limits = limits, .phases = rows_of(phases), .parts = rows_of(parts)};
  result.limits.flops_per_byte = limits.flops_per_s / limits.bytes_per_s;
  return result;
}

std::string refutation_of(const Roofline& roofline) {
  if (!roofline.limits.refuted.empty()) return roofline.limits.refuted;
  constexpr double tolerance = 0.95;
  const RooflineRow* worst = nullptr;
  const auto has_one_part = [&](const RooflineRow& phase) {
    return std::ranges::count(roofline.parts, phase.phase, &RooflineRow::phase) == 1;
  };
  const auto look_at = [&](const std::vector<RooflineRow>& rows, Bound bound) {
    for (const RooflineRow& row : rows) {
      if (row.bound_by != bound || !row.distance || *row.distance >= tolerance) continue;
      if (bound == Bound::memory && !has_one_part(row)) continue;
      if (worst == nullptr || *row.distance < *worst->distance) worst = &row;
    }
  };
  look_at(roofline.parts, Bound::compute);
  look_at(roofline.phases, Bound::memory);
  if (worst == nullptr) return "";
  return fmt::format("{}{} ran at {} the measured limit of {}", worst->phase,
                     worst->part ? " " + *worst->part : std::string(), distance_text(1 / *worst->distance),
                     name_of(worst->bound_by));
}

std::string roofline_table(const Roofline& roofline) {
  const std::string line = std::string(columns(), '-') + "\n";
  std::string text = fmt::format("Limits: {}, {} GB/s\n{:.80}\n", flops_text(roofline.limits.flops_per_s),
                                 number(roofline.limits.bytes_per_s / 1e9), roofline.limits.source);
  text += fmt::format(row_format, "phase", "part", "ms/step", "at limit", "bound by", "distance", "ms above");
  return text + line + rows_text(roofline.phases) + line + rows_text(roofline.parts) + line;
}

Mfu mfu(const std::string& gpu, double flops_per_step, double ms_per_step) {
  const auto peaks = harness::peaks_of(gpu);
  Mfu result{.type = peaks && !peaks->bf16 ? harness::NumberType::fp16 : harness::NumberType::bf16};
  result.formula = fmt::format("6 N + 6 L C T FLOPs per token, N without padding rows, over the dense {} peak",
                               name_of(result.type));
  const auto peak = peaks ? peaks->of(result.type) : std::nullopt;
  if (gpu.empty()) {
    result.reason = "there is no table of peaks for CPUs";
  } else if (!peaks) {
    result.reason = fmt::format("\"{}\" is not in the table of peaks", gpu);
  } else if (!peak) {
    result.reason = fmt::format("the table has no {} peak for \"{}\"", name_of(result.type), gpu);
  } else {
    result.value = flops_per_step / (ms_per_step / 1e3) / *peak;
    result.peak_flops = *peak;
    result.peak_source = peaks->source;
  }
  return result;
}

}  // namespace study
