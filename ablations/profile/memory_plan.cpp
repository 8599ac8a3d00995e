#include "ablations/profile/memory_plan.h"

#include "ablations/profile/estimate.h"
#include "ablations/text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace ablations {

using files::Json;

namespace {

std::string_view name_of(model::Moment moment) { return names_of(moment)[static_cast<size_t>(moment)]; }

const char* in_words(model::Moment moment) {
  switch (moment) {
    case model::Moment::loss:
      return "at the loss";
    case model::Moment::backward_begin:
      return "when the backward pass begins";
    case model::Moment::backward_end:
      return "when the backward pass ends";
    case model::Moment::update:
      return "at the update";
  }
  return "";
}

std::string part_in_words(std::string name) {
  std::ranges::replace(name, '_', ' ');
  return name;
}

bool on_gpu(const MemoryPlan& plan) { return plan.step.recipe.device == model::Device::cuda; }

}  // namespace

MemoryPlan memory_plan(const RunOptions& step, std::optional<double> limit, const std::string& limit_of) {
  const model::Config config = config_of(step);
  return {.step = step,
          .memory = model::step_memory(config, step.recipe, step.B, step.T, step.accumulation),
          .limit = limit,
          .limit_of = limit_of,
          .largest_batch = limit ? model::largest_batch(config, step.recipe, step.T, step.accumulation, *limit) : 0};
}

Json to_json(const MemoryPlan& plan) {
  const model::Moment peak = plan.memory.peak();
  std::map<std::string, double> at_peak;
  model::visit_parts(plan.memory.at(peak), [&](const char* name, double bytes, const char*) { at_peak[name] = bytes; });
  Json parts = Json::array();
  model::visit_parts(plan.memory.largest(), [&](const char* name, double bytes, const char* what) {
    parts.push_back({{"part", name}, {"largest_bytes", bytes}, {"at_peak_bytes", at_peak.at(name)}, {"what", what}});
  });
  return {{"model", plan.step.model},
          {"batch", plan.step.B},
          {"context", plan.step.T},
          {"accumulation", plan.step.accumulation},
          {"recipe", model::to_json(plan.step.recipe)},
          {"parts", parts},
          {"peak", name_of(peak)},
          {"tensor_bytes", plan.memory.at(peak).tensors()},
          {"total_bytes", plan.memory.total()},
          {"memory_bytes", plan.limit ? Json(*plan.limit) : Json()},
          {"memory_of", plan.limit_of},
          {"fits", plan.limit ? Json(plan.fits()) : Json()},
          {"largest_batch", plan.limit ? Json(plan.largest_batch) : Json()}};
}

std::string parts_text(const MemoryPlan& plan) {
  const RunOptions& step = plan.step;
  const model::Moment peak = plan.memory.peak();
  const model::StepMemory::Parts& now = plan.memory.at(peak);
  const auto row = [](const std::string& name, const std::string& largest, double at_peak, const std::string& what) {
    return fmt::format("{:<14}{:>9}{:>9.3f}{}\n", name, largest, gib(at_peak), what.empty() ? "" : "  " + what);
  };
  std::map<std::string, double> at_peak;
  model::visit_parts(now, [&](const char* name, double bytes, const char*) { at_peak[name] = bytes; });
  std::string text =
      wrapped(fmt::format("{}, B={} T={}{}, on a {}: about {:.2f} GiB, {}", step.model, step.B, step.T,
                          step.accumulation > 1 ? fmt::format(", {} micro-steps", step.accumulation) : "",
                          on_gpu(plan) ? "GPU" : "CPU", gib(plan.memory.total()), in_words(peak))) +
      "\n\n";
  text += fmt::format("{:<14}{:>9}{:>9}\n", "GiB", "largest", "at peak") + std::string(columns, '-') + "\n";
  model::visit_parts(plan.memory.largest(), [&](const char* name, double bytes, const char* what) {
    if (bytes > 0) text += row(part_in_words(name), fmt::format("{:.3f}", gib(bytes)), at_peak.at(name), what);
  });
  text += std::string(columns, '-') + "\n";
  text += row("tensors", "", now.tensors(), on_gpu(plan) ? "what a run's record counts as its peak" : "");
  return text + row("total", "", now.total(), on_gpu(plan) ? "" : "what a run's record counts as its peak");
}

std::string verdict_text(const MemoryPlan& plan) {
  const std::string takes = fmt::format("its step takes about {:.2f} GiB", gib(plan.memory.total()));
  if (!plan.limit) return fmt::format("{}, compared with nothing: {}", takes, plan.limit_of);
  return fmt::format("B={} {}: {}, and {}; {}", plan.step.B, plan.fits() ? "fits" : "does not fit", takes,
                     plan.limit_of, fitting_text(plan.largest_batch));
}

}  // namespace ablations
