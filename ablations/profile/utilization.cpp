#include "ablations/profile/utilization.h"

#include <fmt/format.h>

namespace ablations {

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
