#include "ablations/profile/memory_plan.h"

#include "ablations/profile/estimate.h"
#include "text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace ablations {

using files::Json;

namespace {

std::string_view name_of_moment(Moment moment) { return names_of(moment)[static_cast<size_t>(moment)]; }

const char* in_words(Moment moment) {
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
          {"memory_bytes", plan.limit ? Json(*plan.limit) : Json()},
          {"memory_of", plan.limit_of},
          {"fits", plan.limit ? Json(plan.fits()) : Json()},
          {"largest_batch", plan.limit ? Json(plan.largest_batch) : Json()}};
}

std::string parts_text(const MemoryPlan& plan) {
  const RunOptions& step = plan.step;
  const Moment peak = plan.memory.peak();
  const std::string micro_steps = step.accumulation > 1 ? fmt::format(", {} micro-steps", step.accumulation) : "";
  const std::string rule = std::string(columns(), '-') + "\n";
  std::string text =
      wrapped(fmt::format("{}, B={} T={}{}, on a {}: about {:.2f} GiB, {}", step.model, step.B, step.T, micro_steps,
                          on_gpu(plan) ? "GPU" : "CPU", gib(plan.memory.total()), in_words(peak))) +
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
  const std::string takes = fmt::format("its step takes about {:.2f} GiB", gib(plan.memory.total()));
  if (!plan.limit) return fmt::format("{}, compared with nothing: {}", takes, plan.limit_of);
  return fmt::format("B={} {}: {}, and {}; {}", plan.step.B, plan.fits() ? "fits" : "does not fit", takes,
                     plan.limit_of, fitting_text(plan.largest_batch));
}

}  // namespace ablations
