#include "ablations/study/guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace ablations {

using harness::Json;

Band band_of(const std::vector<double>& reference, double known_offset, int64_t skipped) {
  Band band;
  for (size_t i = 0; i < reference.size(); ++i) {
    const auto behind = static_cast<size_t>(std::clamp<int64_t>(skipped, 0, static_cast<int64_t>(i)));
    const std::span<const double> near = std::span(reference).subspan(i - behind, behind + 1);
    if (!std::ranges::all_of(near, [](double loss) { return std::isfinite(loss); })) {
      band.lo.push_back(NAN);
      band.hi.push_back(NAN);
      continue;
    }
    const auto [least, most] = std::ranges::minmax(near);
    band.lo.push_back(least + std::min(known_offset, 0.0));
    band.hi.push_back(most + std::max(known_offset, 0.0));
  }
  return band;
}

Guard guard(const std::vector<double>& losses, const std::vector<double>& reference, double tolerance,
            double known_offset, int64_t skipped) {
  Guard result{.passed = true,
               .max_deviation = 0.0,
               .tolerance = tolerance,
               .known_offset = known_offset,
               .steps = static_cast<int64_t>(losses.size()),
               .message = ""};
  const Band band = band_of(reference, known_offset, skipped);
  for (size_t i = 0; i < losses.size() && i < reference.size(); ++i) {
    if (!std::isfinite(losses[i]) || !std::isfinite(reference[i])) {
      result.passed = false;
      result.max_deviation.reset();
      result.message = fmt::format("the loss of step {} is not finite", i + 1);
      return result;
    }
    const double deviation = std::abs(losses[i] - std::clamp(losses[i], band.lo[i], band.hi[i]));
    if (deviation <= *result.max_deviation) continue;
    result.max_deviation = deviation;
    if (deviation > tolerance) {
      result.passed = false;
      result.message = fmt::format("step {} has loss {:.4f}, the reference {:.4f}: {:.4f} nats apart, {:g} allowed",
                                   i + 1, losses[i], reference[i], deviation, tolerance);
    }
  }
  return result;
}

double tolerance_between(const Rung& rung, const Rung& reference) {
  double tolerance = rung.peer == reference.peer ? 0 : other_program_tolerance;
  for (const auto* applied : {&rung.applied, &reference.applied}) {
    for (const std::string& name : *applied) tolerance = std::max(tolerance, find_optimization(name)->loss_tolerance);
  }
  return tolerance;
}

Guard guard_rung(const Rung& rung, const RunsByRepeat& runs, const Rung& reference,
                 const RunsByRepeat& reference_runs) {
  const double offset = std::log(static_cast<double>(rung.recipe.vocabulary_rows) /
                                 static_cast<double>(reference.recipe.vocabulary_rows));
  return worst_of(runs, reference_runs, tolerance_between(rung, reference), offset);
}

const RunData& partner_of(int64_t repeat, const RunsByRepeat& reference_runs) {
  const auto pair = reference_runs.find(repeat);
  return pair == reference_runs.end() ? reference_runs.begin()->second : pair->second;
}

Guard worst_of(const RunsByRepeat& runs, const RunsByRepeat& reference_runs, double tolerance, double known_offset) {
  Guard worst;
  bool first = true;
  for (const auto& [repeat, run] : runs) {
    Guard one =
        guard(run.losses, partner_of(repeat, reference_runs).losses, tolerance, known_offset, run.skipped_steps);
    one.repeat = repeat;
    const bool worse = !one.passed || one.max_deviation.value_or(0) > worst.max_deviation.value_or(0);
    if (first || (worst.passed && worse)) worst = one;
    first = false;
  }
  return worst;
}

Json to_json(const Guard& guard, size_t guarded_by) {
  return {{"passed", guard.passed},       {"max_deviation", guard.max_deviation ? Json(*guard.max_deviation) : Json()},
          {"tolerance", guard.tolerance}, {"known_offset", guard.known_offset},
          {"steps", guard.steps},         {"message", guard.message},
          {"guarded_by", guarded_by},     {"repeat", guard.repeat}};
}

}  // namespace ablations
