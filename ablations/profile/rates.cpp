#include "ablations/profile/rates.h"

#include "ablations/techniques/step_table.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace ablations {

using files::Json;

namespace {

bool of_memory(const std::string& what) { return what == "copy" || what == "update"; }

std::string rate_text(const std::string& what, double rate) {
  return of_memory(what) ? number(rate / 1e9) + " GB/s" : flops_text(rate);
}

}  // namespace

Json to_json(const Rates& rates) {
  Json list = Json::array();
  for (const Rate& rate : rates.rates) {
    list.push_back({{"what", rate.what},
                    {"size", rate.size},
                    {"unit", of_memory(rate.what) ? "bytes/s, read and written" : "FLOP/s"},
                    {"measured", rate.measured},
                    {"table", rate.table ? Json(*rate.table) : Json()},
                    {"share", rate.table ? Json(rate.measured / *rate.table) : Json()}});
  }
  return {{"device", rates.device},
          {"source", rates.source.empty() ? Json() : Json(rates.source)},
          {"reason", rates.reason},
          {"rates", list}};
}

std::string rates_text(const Rates& rates) {
  std::string text = rates.device + "\n";
  text += fmt::format("{:<6} {:<10} {:>16} {:>16} {:>6}\n", "", "size", "measured", "table", "share");
  for (const Rate& rate : rates.rates) {
    text += fmt::format("{:<6} {:<10} {:>16} {:>16} {:>6}\n", rate.what, rate.size, rate_text(rate.what, rate.measured),
                        rate.table ? rate_text(rate.what, *rate.table) : "-",
                        rate.table ? fmt::format("{:.0f} %", 100 * rate.measured / *rate.table) : "-");
  }
  text += "copy, update (in place): bytes read and written; the others: dense matrix products\n";
  return text + (rates.source.empty() ? rates.reason : "table: " + rates.source) + "\n";
}

using harness::NumberType;

std::optional<Limits> limits_from_rates(const model::Recipe& recipe, const Rates& rates) {
  const auto named = [&](const std::string& what) {
    return std::ranges::find_if(rates.rates, [&](const Rate& rate) { return rate.what == what; });
  };
  const auto copy = named("copy"), update = named("update"), product = named(rate_of(recipe));
  if (copy == rates.rates.end() || update == rates.rates.end() || product == rates.rates.end()) return std::nullopt;
  const Rate& memory = update->measured > copy->measured ? *update : *copy;
  return Limits{
      .flops_per_s = product->measured,
      .bytes_per_s = memory.measured,
      .source = fmt::format("measured: {} {}, {} of {}", product->what, product->size, memory.what, memory.size)};
}

std::optional<Limits> limits_from_data_sheet(const model::Recipe& recipe, const std::string& gpu) {
  const auto peaks = harness::peaks_of(gpu);
  const auto flops = peaks ? peaks->of(multiplied_in(recipe)) : std::nullopt;
  if (!flops || recipe.device != model::Device::cuda) return std::nullopt;
  return Limits{*flops, peaks->bytes_per_s, peaks->source};
}

}  // namespace ablations
