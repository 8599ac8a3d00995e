#include "ablations/profile/estimate.h"

#include "ablations/gpt2/ladder_file.h"
#include "ablations/profile/rates.h"
#include "ablations/techniques/step_table.h"
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
    const model::Recipe recipe = recipe_of(plan.rungs[i]);
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
        largest_batch(config_of(plan, shape), recipe_of(plan.rungs[i]), shape.T, shape.accumulation, memory);
    return fmt::format("a run of {} would take about {} of memory, but there are only {} ({})", called(plan, i),
                       gib_text(estimate.bytes[i]), gib_text(memory), fitting_text(fitting));
  }
  if (const size_t i = largest(estimate.steps_s); estimate.steps_s[i] > plan.run_limit_s) {
    return fmt::format("a run of {} would take about {}, but --limit-s stops it after {:.0f} s", called(plan, i),
                       duration_text(estimate.run_s[i]), plan.run_limit_s);
  }
  return "";
}

using files::Json;

namespace {

std::string_view name_of_moment(Moment moment) { return names_of(moment)[static_cast<size_t>(moment)]; }

const char* moment_words(Moment moment) {
  switch (moment) {
    case Moment::loss:
      return "at the loss";
    case Moment::backward_begin:
      return "when the backward pass begins";
    case Moment::backward_end:
      return "when the backward pass ends";
    case Moment::update:
      return "at the update";
  }
  return "";
}

struct Row {
  std::string name, what;
  double largest, at_peak;  // bytes
};

std::vector<Row> rows_of_memory(const StepMemory& memory) {
  std::vector<Row> rows;
  const StepMemory::Parts largest = memory.largest();
  visit_parts(largest, [&](const char* name, double bytes, const char* what) {
    rows.push_back({.name = name, .what = what, .largest = bytes, .at_peak = 0});
  });
  auto row = rows.begin();
  visit_parts(memory.at(memory.peak()), [&](const char*, double bytes, const char*) { row++->at_peak = bytes; });
  return rows;
}

bool on_gpu(const MemoryPlan& plan) { return plan.step.recipe.device == model::Device::cuda; }

}  // namespace

MemoryPlan memory_plan(const RunOptions& step, std::optional<double> limit, const std::string& limit_of) {
  const model::Config config = config_of(step);
  return {.step = step,
          .memory = step_memory(config, step.recipe, step.B, step.T, step.accumulation),
          .limit = limit,
          .limit_of = limit_of,
          .largest_batch = limit ? largest_batch(config, step.recipe, step.T, step.accumulation, *limit) : 0};
}

Json to_json(const MemoryPlan& plan) {
  const Moment peak = plan.memory.peak();
  Json parts = Json::array();
  for (const Row& row : rows_of_memory(plan.memory)) {
    parts.push_back(
        {{"part", row.name}, {"largest_bytes", row.largest}, {"at_peak_bytes", row.at_peak}, {"what", row.what}});
  }
  return {{"model", plan.step.model},
          {"batch", plan.step.B},
          {"context", plan.step.T},
          {"accumulation", plan.step.accumulation},
          {"recipe", model::to_json(plan.step.recipe)},
          {"parts", parts},
          {"peak", name_of_moment(peak)},
          {"tensor_bytes", plan.memory.at(peak).tensors()},
          {"total_bytes", plan.memory.total()},
          {"is_least", plan.memory.is_least},
          {"memory_bytes", plan.limit ? Json(*plan.limit) : Json()},
          {"memory_of", plan.limit_of},
          {"fits", plan.limit ? Json(plan.fits()) : Json()},
          {"largest_batch", plan.limit ? Json(plan.largest_batch) : Json()}};
}

static const char* about(const MemoryPlan& plan) { return plan.memory.is_least ? "at least" : "about"; }

std::string parts_text(const MemoryPlan& plan) {
  const RunOptions& step = plan.step;
  const Moment peak = plan.memory.peak();
  const std::string micro_steps = step.accumulation > 1 ? fmt::format(", {} micro-steps", step.accumulation) : "";
  const std::string rule = std::string(columns(), '-') + "\n";
  std::string text =
      wrapped(fmt::format("{}, B={} T={}{}, on a {}: {} {:.2f} GiB, {}", step.model, step.B, step.T, micro_steps,
                          on_gpu(plan) ? "GPU" : "CPU", about(plan), gib(plan.memory.total()), moment_words(peak))) +
      fmt::format("\n{:<14}{:>9}{:>9}\n", "GiB", "largest", "at peak") + rule;
  for (const Row& row : rows_of_memory(plan.memory)) {
    if (row.largest == 0) continue;
    std::string name = row.name;
    std::ranges::replace(name, '_', ' ');
    text += fmt::format("{:<14}{:>9.3f}{:>9.3f}  {}\n", name, gib(row.largest), gib(row.at_peak), row.what);
  }
  const auto sum = [](const char* of, double bytes, bool recorded) {
    return fmt::format("{:<23}{:>9.3f}{}\n", of, gib(bytes), recorded ? "  what a run's record says as its peak" : "");
  };
  return text + rule + sum("tensors", plan.memory.at(peak).tensors(), on_gpu(plan)) +
         sum("total", plan.memory.total(), !on_gpu(plan));
}

std::string verdict_text(const MemoryPlan& plan) {
  const std::string takes = fmt::format("its step takes {} {:.2f} GiB", about(plan), gib(plan.memory.total()));
  if (!plan.limit) return fmt::format("{}, compared with nothing: {}", takes, plan.limit_of);
  return fmt::format("B={} {}: {}, and {}; {}", plan.step.B, plan.fits() ? "fits" : "does not fit", takes,
                     plan.limit_of, fitting_text(plan.largest_batch));
}

}  // namespace ablations
