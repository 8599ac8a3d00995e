#include "ablations/profile/estimate.h"

#include "ablations/profile/rates.h"
#include "ablations/run/options.h"
#include "ablations/techniques/step_costs.h"
#include "ablations/techniques/step_memory.h"
#include "text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ablations {

namespace {

constexpr double start_s = 2.5;  // of a process: PyTorch, weights, proofs

bool is_planned(const Rung& rung) { return rung.status == Rung::Status::planned; }

// "40 seconds", "9 minutes", "14 hours", "3 days".
std::string duration_text(double seconds) {
  const auto text = [](double value, const char* unit) {
    const long long whole = std::max(1LL, std::llround(value));
    return fmt::format("{} {}{}", whole, unit, whole == 1 ? "" : "s");
  };
  if (seconds < 10) return "10 seconds";
  if (seconds < 100) return text(std::round(seconds / 10) * 10, "second");
  if (seconds < 100 * 60) return text(seconds / 60, "minute");
  if (seconds < 48 * 3600) return text(seconds / 3600, "hour");
  return text(seconds / 86400, "day");
}

std::string gib_text(double bytes) { return fmt::format("{:.1f} GiB", gib(bytes)); }

model::Config config_of(const Plan& plan, const Shape& shape) {
  return model::with_positions(model::preset(plan.workload.model), shape.positions);
}

// In words for a refusal: "rung flash".
std::string called(const Plan& plan, size_t rung) { return fmt::format("rung \"{}\"", name_of(plan.rungs[rung])); }

}  // namespace

Estimate estimate_of(const Plan& plan, const std::optional<Speeds>& speeds) {
  const size_t rungs = plan.rungs.size();
  Estimate estimate{
      .steps_s = std::vector<double>(rungs), .run_s = std::vector<double>(rungs), .bytes = std::vector<double>(rungs)};
  for (size_t i = 0; i < rungs; ++i) {
    const model::Recipe& recipe = plan.rungs[i].recipe;
    if (!is_planned(plan.rungs[i])) continue;
    const Shape shape = shape_of(plan, i);
    const model::Config config = config_of(plan, shape);
    estimate.bytes[i] = step_memory(config, recipe, shape.B, shape.T, shape.accumulation).total();
    const auto rate = speeds ? speeds->flops.find(rate_of(recipe)) : decltype(speeds->flops.end()){};
    if (!speeds || rate == speeds->flops.end()) continue;
    double flops = 0, bytes = 0;
    for (const Cost& cost : step_costs(config, recipe, shape.B, shape.T, shape.accumulation)) {
      flops += cost.flops;
      bytes += cost.bytes;
    }
    const double step_s = flops / rate->second + bytes / speeds->bytes;
    const auto timed = static_cast<double>(plan.timed_steps);
    const auto most = static_cast<double>(most_timed_steps(plan.timed_steps, plan.least_window_s));
    const double window_s = recipe.device == model::Device::cuda ? plan.least_window_s : 0;
    estimate.steps_s[i] = static_cast<double>(plan.warmup_steps) * step_s +
                          std::clamp(window_s, timed * step_s, std::max(timed, most) * step_s);
    estimate.run_s[i] = start_s + estimate.steps_s[i];
  }
  return estimate;
}

double seconds_of(const Estimate& estimate, const std::vector<PlannedRun>& runs) {
  double seconds = 0;
  for (const PlannedRun& run : runs) seconds += estimate.run_s[run.rung];
  return seconds;
}

std::string estimate_text(const Estimate& estimate, const std::vector<PlannedRun>& runs) {
  const double seconds = seconds_of(estimate, runs), bytes = std::ranges::max(estimate.bytes);
  return seconds > 0 ? fmt::format("at least {}, {}", duration_text(seconds), gib_text(bytes))
                     : fmt::format("about {}", gib_text(bytes));
}

std::string fitting_text(int64_t largest_batch) {
  return largest_batch > 0 ? fmt::format("the largest B that fits is {}", largest_batch) : "not even B=1 fits";
}

std::string reason_against_running(const Plan& plan, const Estimate& estimate, double memory) {
  const auto largest = [](const std::vector<double>& values) {
    return static_cast<size_t>(std::ranges::max_element(values) - values.begin());
  };
  if (const size_t i = largest(estimate.bytes); memory > 0 && estimate.bytes[i] > memory) {
    const Shape shape = shape_of(plan, i);
    const int64_t fitting =
        largest_batch(config_of(plan, shape), plan.rungs[i].recipe, shape.T, shape.accumulation, memory);
    return fmt::format("a run of {} would take about {} of memory, but there are only {} ({})", called(plan, i),
                       gib_text(estimate.bytes[i]), gib_text(memory), fitting_text(fitting));
  }
  if (const size_t i = largest(estimate.steps_s); estimate.steps_s[i] > plan.run_limit_s) {
    return fmt::format("a run of {} would take about {}, but --limit-s stops it after {:.0f} s", called(plan, i),
                       duration_text(estimate.run_s[i]), plan.run_limit_s);
  }
  return "";
}

}  // namespace ablations
