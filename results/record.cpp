#include "results/record.h"

namespace ablations {

files::Json json_of(const Record& record) { return record.is_ok() ? json_of<Record>(record) : json_of<RunEnd>(record); }

bool is_of_gpu(const files::Json& recipe) { return files::field_or_null(recipe, "device") == "cuda"; }

bool Record::is_of_peer() const { return observations.contains("peer"); }

std::optional<double> Record::compile_seconds() const {
  const double seconds = observations.value(files::Json::json_pointer("/compilation/compile_s"), 0.0);
  return seconds > 0 ? std::optional(seconds) : std::nullopt;
}

bool Record::is_on_gpu() const { return is_of_gpu(recipe); }

model::Recipe Record::known_recipe(const std::string& where) const { return model::recipe_from_json(recipe, where); }

}  // namespace ablations
