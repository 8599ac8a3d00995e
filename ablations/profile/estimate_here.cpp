#include "ablations/gpt2/ladder_file.h"
#include "ablations/profile/estimate.h"
#include "ablations/profile/rates.h"
#include "harness/machine/control_groups.h"
#include "harness/machine/machine.h"
#include "harness/machine/peaks.h"

#include <ATen/Parallel.h>

#include <map>
#include <utility>

namespace ablations {

std::optional<Speeds> speeds_for(const Plan& plan) {
  constexpr double share_of_peak = 0.5;  // of what a GPU's maker says
  Speeds speeds;
  const harness::Machine& machine = harness::this_machine();
  const auto peaks = uses_cuda(plan) && machine.gpu ? harness::peaks_of(machine.gpu->name) : std::nullopt;
  if (uses_cuda(plan) && !peaks) return std::nullopt;
  const int threads = at::get_num_threads();
  if (!peaks) at::set_num_threads(static_cast<int>(plan.workload.threads));
  static std::map<std::pair<std::string, int64_t>, double> known;  // rates of this CPU, by name and threads
  const auto once = [&](const std::string& rate, const auto& measure) {
    const auto [place, is_new] = known.try_emplace({rate, plan.workload.threads});
    return is_new ? place->second = measure() : place->second;
  };
  speeds.bytes = peaks ? share_of_peak * peaks->bytes_per_s : once("memory", rough_update_rate);
  for (const Rung& rung : plan.rungs) {
    const model::Recipe recipe = recipe_of(rung);
    const std::string rate = rate_of(recipe);
    if (rung.status != Rung::Status::planned || speeds.flops.contains(rate)) continue;
    if (!peaks) {
      speeds.flops[rate] = once(rate, [&] { return rough_product_rate(recipe); });
    } else if (const auto peak = peaks->of(multiplied_in(recipe)); peak && recipe.device != model::Device::cpu) {
      speeds.flops[rate] = share_of_peak * *peak;
    }
  }
  at::set_num_threads(threads);
  return speeds;
}

std::string reason_against_running_here(const Plan& plan, const Estimate& estimate) {
  const harness::Machine& machine = harness::this_machine();
  const int64_t memory =
      uses_cuda(plan) && machine.gpu ? machine.gpu->memory_bytes : harness::available_memory().value_or(0);
  return reason_against_running(plan, estimate, static_cast<double>(memory));
}

}  // namespace ablations
