#include "ablations/profile/roofline.h"

#include "ablations/profile/mfu.h"
#include "ablations/text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace ablations {

using harness::Json;

namespace {

constexpr const char* row_format = "{:<9.9} {:<15.15} {:>10} {:>10} {:>9} {:>10} {:>11}\n";

std::string name_of(const model::Cost& cost) { return cost.part.empty() ? cost.op : cost.part; }

// What work of a phase is that belongs to no part: the trainer's operation, where the phase is one.
std::string unnamed_in(const std::vector<model::Cost>& costs, const std::string& phase) {
  const auto known =
      std::ranges::find_if(costs, [&](const model::Cost& cost) { return cost.phase == phase && cost.part.empty(); });
  return known == costs.end() ? "other" : known->op;
}

RooflineRow& row_of(std::vector<RooflineRow>& rows, const std::string& phase, const std::string& part) {
  const auto known =
      std::ranges::find_if(rows, [&](const RooflineRow& row) { return row.phase == phase && row.part == part; });
  return known != rows.end() ? *known : rows.emplace_back(RooflineRow{.phase = phase, .part = part});
}

void sort(std::vector<RooflineRow>& rows) {
  std::ranges::stable_sort(rows, [](const RooflineRow& a, const RooflineRow& b) {
    if (a.measured_ms.has_value() != b.measured_ms.has_value()) return a.measured_ms.has_value();
    return a.ms_above() > b.ms_above();
  });
}

Json row_json(const RooflineRow& row) {
  const auto or_null = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  Json json{{"phase", row.phase},
            {"flops", row.flops},
            {"bytes", row.bytes},
            {"flops_per_byte", or_null(row.flops_per_byte())},
            {"flops_per_s", or_null(row.flops_per_s())},
            {"limit_ms", row.limit_ms()},
            {"bound_by", row.bound_by()},
            {"measured_ms", or_null(row.measured_ms)},
            {"distance", or_null(row.distance())},
            {"ms_above", row.measured_ms ? Json(row.ms_above()) : Json()}};
  if (!row.part.empty()) json["part"] = row.part;
  return json;
}

// "1.22x", at most 10 columns.
std::string distance_text(const std::optional<double>& distance) {
  if (!distance) return "-";
  return (*distance < 99999.5 ? number(*distance) : fmt::format("{:.1e}", *distance)) + "x";
}

std::string rows_text(const std::vector<RooflineRow>& rows) {
  std::string text;
  for (const RooflineRow& row : rows) {
    const bool limited = row.limit_ms() > 0;
    text += fmt::format(row_format, row.phase, row.part.empty() ? "all" : row.part,
                        row.measured_ms ? number(*row.measured_ms) : "-", limited ? number(row.limit_ms()) : "-",
                        row.bound_by() == "none" ? "-" : row.bound_by(), distance_text(row.distance()),
                        row.measured_ms ? (row.ms_above() < 0 ? "-" : "") + number(std::abs(row.ms_above())) : "-");
  }
  return text;
}

}  // namespace

MeasuredMs measured_by_part(const Json& summary) {
  MeasuredMs measured;
  for (const Json& row : summary.at("by_part"))
    measured[{row.at("phase"), row.at("part")}] += row.at("ms").get<double>();
  return measured;
}

std::optional<Limits> limits_from_rates(const model::Recipe& recipe, const Rates& rates) {
  const auto named = [&](const std::string& what) {
    return std::ranges::find_if(rates.rates, [&](const Rate& rate) { return rate.what == what; });
  };
  const auto copy = named("copy"), update = named("update"), product = named(rate_of(recipe));
  if (copy == rates.rates.end() || update == rates.rates.end() || product == rates.rates.end()) return std::nullopt;
  const Rate& memory = update->measured > copy->measured ? *update : *copy;
  return Limits{product->measured, memory.measured,
                fmt::format("measured: {} {}, {} of {}", product->what, product->size, memory.what, memory.size)};
}

std::string RooflineRow::bound_by() const {
  if (limit_ms() <= 0) return "none";
  return compute_ms >= memory_ms ? "compute" : "memory";
}

std::optional<double> RooflineRow::distance() const {
  if (!measured_ms || limit_ms() <= 0) return std::nullopt;
  return *measured_ms / limit_ms();
}

std::optional<double> RooflineRow::flops_per_byte() const {
  if (flops <= 0 || bytes <= 0) return std::nullopt;
  return flops / bytes;
}

std::optional<double> RooflineRow::flops_per_s() const {
  if (flops <= 0 || measured_ms.value_or(0) <= 0) return std::nullopt;
  return 1e3 * flops / *measured_ms;
}

Roofline roofline(const std::vector<model::Cost>& costs, const Limits& limits, const MeasuredMs& measured) {
  if (!(limits.flops_per_s > 0) || !(limits.bytes_per_s > 0)) {
    throw std::invalid_argument(fmt::format("roofline: limits of {} FLOP/s and {} bytes/s are not allowed; above 0 is",
                                            limits.flops_per_s, limits.bytes_per_s));
  }
  Roofline result{.limits = limits, .phases = {}, .parts = {}};
  for (const model::Cost& cost : costs) {
    const double compute_ms = 1e3 * cost.flops / limits.flops_per_s, memory_ms = 1e3 * cost.bytes / limits.bytes_per_s;
    for (RooflineRow* row :
         {&row_of(result.phases, cost.phase, ""), &row_of(result.parts, cost.phase, name_of(cost))}) {
      row->flops += cost.flops;
      row->bytes += cost.bytes;
      (compute_ms >= memory_ms ? row->compute_ms : row->memory_ms) += std::max(compute_ms, memory_ms);
    }
  }
  for (const auto& [key, ms] : measured) {
    const auto& [phase, part] = key;
    for (RooflineRow* row : {&row_of(result.phases, phase, ""),
                             &row_of(result.parts, phase, part.empty() ? unnamed_in(costs, phase) : part)}) {
      row->measured_ms = row->measured_ms.value_or(0) + ms;
    }
  }
  sort(result.phases);
  sort(result.parts);
  return result;
}

Json to_json(const Roofline& roofline) {
  Json phases = Json::array(), parts = Json::array();
  for (const RooflineRow& row : roofline.phases) phases.push_back(row_json(row));
  for (const RooflineRow& row : roofline.parts) parts.push_back(row_json(row));
  return {{"limits",
           {{"flops_per_s", roofline.limits.flops_per_s},
            {"bytes_per_s", roofline.limits.bytes_per_s},
            {"flops_per_byte", roofline.limits.flops_per_s / roofline.limits.bytes_per_s},
            {"source", roofline.limits.source}}},
          {"phases", phases},
          {"parts", parts}};
}

std::string roofline_table(const Roofline& roofline) {
  const std::string line = std::string(columns, '-') + "\n";
  std::string text = fmt::format("Limits: {}, {} GB/s\n{:.80}\n", flops_text(roofline.limits.flops_per_s),
                                 number(roofline.limits.bytes_per_s / 1e9), roofline.limits.source);
  text += fmt::format(row_format, "phase", "part", "ms/step", "at limit", "bound by", "distance", "ms above");
  return text + line + rows_text(roofline.phases) + line + rows_text(roofline.parts) + line;
}

}  // namespace ablations
