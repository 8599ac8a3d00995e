#include "model/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

namespace model {
namespace {

nlohmann::json value_to_json(int64_t value) { return value; }
nlohmann::json value_to_json(bool value) { return value; }

template <class Enum>
nlohmann::json value_to_json(Enum value) {
  return std::string(names_of(value)[static_cast<size_t>(value)]);
}

void read_value(const nlohmann::json& json, const std::string& where, int64_t& value) {
  constexpr int64_t largest = int64_t{1} << 20;
  if (!json.is_number_integer() || json.get<double>() < 1 || json.get<double>() > largest) {
    throw std::invalid_argument(
        fmt::format("{} must be a whole number between 1 and {}, got {}", where, largest, json.dump()));
  }
  value = json.get<int64_t>();
}

void read_value(const nlohmann::json& json, const std::string& where, bool& value) {
  if (!json.is_boolean()) {
    throw std::invalid_argument(fmt::format("{} must be true or false, got {}", where, json.dump()));
  }
  value = json.get<bool>();
}

template <class Enum>
void read_value(const nlohmann::json& json, const std::string& where, Enum& value) {
  const auto names = names_of(Enum{});
  for (size_t i = 0; i < names.size(); ++i) {
    if (json.is_string() && json.get_ref<const std::string&>() == names[i]) {
      value = static_cast<Enum>(i);
      return;
    }
  }
  throw std::invalid_argument(fmt::format("{} must be one of {}, got {}", where, fmt::join(names, ", "), json.dump()));
}

}  // namespace

nlohmann::json to_json(const Recipe& recipe) {
  nlohmann::json json = nlohmann::json::object();
  visit_fields(recipe, [&](const char* name, const auto& value) { json[name] = value_to_json(value); });
  return json;
}

Recipe recipe_from_json(const nlohmann::json& fields, const std::string& where, const Recipe& base) {
  if (!fields.is_object()) {
    throw std::invalid_argument(fmt::format("{}: a recipe must be a JSON object, got {}", where, fields.type_name()));
  }
  Recipe recipe = base;
  std::vector<std::string> known;
  visit_fields(recipe, [&](const char* name, auto& value) {
    known.emplace_back(name);
    if (const auto found = fields.find(name); found != fields.end()) {
      read_value(*found, fmt::format("{}: recipe field \"{}\"", where, name), value);
    }
  });
  for (const auto& [name, value] : fields.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw std::invalid_argument(
          fmt::format("{}: unknown recipe field \"{}\"; the known fields are {}", where, name, fmt::join(known, ", ")));
    }
  }
  return recipe;
}

nlohmann::json recipe_diff(const Recipe& before, const Recipe& after) {
  const nlohmann::json a = to_json(before);
  const nlohmann::json b = to_json(after);
  nlohmann::json diff = nlohmann::json::object();
  for (const auto& [name, value] : b.items()) {
    if (a[name] != value) diff[name] = {a[name], value};
  }
  return diff;
}

std::string master_weights_obstacle(const Recipe& recipe) {
  if (recipe.autocast == Autocast::fp16) return "master weights know float32 and bfloat16, not float16";
  if (recipe.qkv_products != QkvProducts::one) return "master weights need query, key and value as one product";
  const bool fused = recipe.norm == Norm::fused && recipe.mlp == Mlp::fused &&
                     recipe.cross_entropy == CrossEntropy::fused && recipe.optimizer == Optimizer::fused;
  return fused ? "" : "master weights need norm, mlp, cross_entropy and optimizer fused";
}

bool is_deterministic_workspace(std::string_view config) { return config == ":4096:8" || config == ":16:8"; }

}  // namespace model
