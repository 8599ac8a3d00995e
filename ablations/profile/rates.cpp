#include "ablations/profile/rates.h"

#include "ablations/techniques/step_table.h"
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

using harness::NumberType;

NumberType multiplied_in(const model::Recipe& recipe) {
  switch (recipe.autocast) {
    case model::Autocast::bf16:
      return NumberType::bf16;
    case model::Autocast::fp16:
      return NumberType::fp16;
    case model::Autocast::off:
      break;
  }
  const bool may_round = recipe.matmul_precision != model::MatmulPrecision::highest;
  return recipe.device == model::Device::cuda && may_round ? NumberType::tf32 : NumberType::fp32;
}

Mfu mfu(const model::Recipe& recipe, const std::string& gpu, double flops_per_step, double ms_per_step) {
  const auto peaks = harness::peaks_of(gpu);
  Mfu result{.type = peaks && !peaks->bf16 ? NumberType::fp16 : NumberType::bf16};
  result.formula = fmt::format("6 N + 6 L C T FLOPs per token, N without padding rows, over the dense {} peak",
                               name_of(result.type));
  const auto peak = peaks ? peaks->of(result.type) : std::nullopt;
  if (recipe.device == model::Device::cpu) {
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

}  // namespace ablations
