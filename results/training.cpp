#include "results/training.h"

#include "results/setting.h"

#include <fmt/format.h>

namespace results {

namespace {

Facts facts_of(const TrainingSettings& settings) {
  Facts facts;
  const files::Json flat = json_of(settings).flatten();
  for (const auto& [pointer, value] : flat.items()) {
    facts[pointer.substr(1)] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return facts;
}

}  // namespace

std::vector<std::string> differences(const TrainingSettings& settings, const TrainingSettings& others) {
  return differences(facts_of(settings), facts_of(others));
}

std::string failure_of(const TrainingStep& step, const TrainingSettings& settings) {
  if (!step.loss) return fmt::format("the loss of step {}", step.step);
  const bool is_scaled = files::field_or_null(settings.recipe, "autocast") == "fp16";
  if (!step.norm && !is_scaled) return fmt::format("the norm of the gradients of step {}", step.step);
  return "";
}

}  // namespace results
