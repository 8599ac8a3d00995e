#include "results/record.h"

#include <stdexcept>

namespace results {

void RunEnd::check(const std::string& where) const {
  if (status == RunStatus::missing)
    throw std::invalid_argument(where + ": field [status]: must be one of ok, failed, got missing");
  if (!is_ok() && !failure) throw std::invalid_argument(where + ": field \"failure\" is missing");
}

bool is_of_gpu(const files::Json& recipe) { return files::field_or_null(recipe, "device") == "cuda"; }

bool Record::is_of_peer() const { return observations.contains("peer"); }

std::optional<double> Record::compile_seconds() const {
  const double seconds = observations.value(files::Json::json_pointer("/compilation/compile_s"), 0.0);
  return seconds > 0 ? std::optional(seconds) : std::nullopt;
}

bool Record::is_on_gpu() const { return command ? monitor.has_value() : is_of_gpu(recipe); }

model::Recipe Record::known_recipe(const std::string& where) const { return model::recipe_from_json(recipe, where); }

}  // namespace results
