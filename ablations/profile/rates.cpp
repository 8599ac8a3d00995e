#include "ablations/profile/rates.h"

#include "ablations/profile/utilization.h"
#include "ablations/techniques/step_costs.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>

namespace ablations {

using files::Json;
using model::Autocast;
using model::Device;
using model::MatmulPrecision;
using model::Products;

namespace {

bool of_memory(const std::string& what) { return what == "copy" || what == "update"; }

std::string rate_text(const std::string& what, double rate) {
  return of_memory(what) ? number(rate / 1e9) + " GB/s" : flops_text(rate);
}

}  // namespace

std::string rate_of(const model::Recipe& recipe) {
  if (recipe.device == Device::cpu && recipe.autocast == Autocast::bf16 && recipe.products == Products::packed) {
    return "packed bf16";
  }
  if (recipe.device == Device::cpu && recipe.autocast == Autocast::off) {
    if (recipe.products == Products::packed) return "packed";
    if (recipe.matmul_precision == MatmulPrecision::medium) return "oneDNN";
  }
  if (recipe.device == Device::cuda && recipe.fp8 == model::Fp8::all) return "fp8";
  return std::string(name_of(multiplied_in(recipe)));
}

std::string flops_text(double flops_per_s) {
  return flops_per_s < 1e12 ? number(flops_per_s / 1e9) + " GFLOP/s" : number(flops_per_s / 1e12) + " TFLOP/s";
}

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

}  // namespace ablations
