#include "model/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <stdexcept>
#include <utility>

namespace model {
namespace {

template <class Enum>
constexpr auto names_of() {
  if constexpr (std::is_same_v<Enum, Device>) {
    return std::array<std::string_view, 2>{"cpu", "cuda"};
  } else if constexpr (std::is_same_v<Enum, HostMemory>) {
    return std::array<std::string_view, 2>{"release", "keep"};
  } else if constexpr (std::is_same_v<Enum, MatmulPrecision>) {
    return std::array<std::string_view, 3>{"highest", "high", "medium"};
  } else if constexpr (std::is_same_v<Enum, Autocast>) {
    return std::array<std::string_view, 3>{"off", "bf16", "fp16"};
  } else if constexpr (std::is_same_v<Enum, Attention>) {
    return std::array<std::string_view, 5>{"manual", "math", "efficient", "flash", "cudnn"};
  } else if constexpr (std::is_same_v<Enum, CrossEntropy>) {
    return std::array<std::string_view, 2>{"aten", "in_place"};
  } else if constexpr (std::is_same_v<Enum, Residual>) {
    return std::array<std::string_view, 2>{"float32", "autocast"};
  } else if constexpr (std::is_same_v<Enum, Execution>) {
    return std::array<std::string_view, 2>{"eager", "graph"};
  } else {
    static_assert(std::is_same_v<Enum, Optimizer>);
    return std::array<std::string_view, 3>{"loop", "foreach", "fused"};
  }
}

// The one list of fields: JSON in, JSON out and the difference are made from it.
template <class RecipeType, class Visitor>
void visit_fields(RecipeType& recipe, Visitor&& visit) {
  visit("device", recipe.device);
  visit("host_memory", recipe.host_memory);
  visit("matmul_precision", recipe.matmul_precision);
  visit("autocast", recipe.autocast);
  visit("attention", recipe.attention);
  visit("cross_entropy", recipe.cross_entropy);
  visit("residual", recipe.residual);
  visit("execution", recipe.execution);
  visit("vocabulary_rows", recipe.vocabulary_rows);
  visit("optimizer", recipe.optimizer);
  visit("deterministic", recipe.deterministic);
}

template <class Enum>
std::string_view enum_name(Enum value) {
  return names_of<Enum>()[static_cast<size_t>(value)];
}

nlohmann::json value_to_json(int64_t value) { return value; }
nlohmann::json value_to_json(bool value) { return value; }

template <class Enum>
nlohmann::json value_to_json(Enum value) {
  return std::string(enum_name(value));
}

void read_value(const nlohmann::json& json, const std::string& where, int64_t& value) {
  constexpr int64_t largest = int64_t{1} << 20;
  if (!json.is_number_integer() || json.get<double>() < 1 || json.get<double>() > largest) {
    throw std::invalid_argument(
        fmt::format("{}: {} is not allowed; a whole number from 1 to {} is", where, json.dump(), largest));
  }
  value = json.get<int64_t>();
}

void read_value(const nlohmann::json& json, const std::string& where, bool& value) {
  if (!json.is_boolean()) {
    throw std::invalid_argument(fmt::format("{}: {} is not allowed; true or false is", where, json.dump()));
  }
  value = json.get<bool>();
}

template <class Enum>
void read_value(const nlohmann::json& json, const std::string& where, Enum& value) {
  constexpr auto names = names_of<Enum>();
  for (size_t i = 0; i < names.size(); ++i) {
    if (json.is_string() && json.get_ref<const std::string&>() == names[i]) {
      value = static_cast<Enum>(i);
      return;
    }
  }
  throw std::invalid_argument(
      fmt::format("{}: {} is not allowed; one of {} is", where, json.dump(), fmt::join(names, ", ")));
}

}  // namespace

nlohmann::json to_json(const Recipe& recipe) {
  nlohmann::json json = nlohmann::json::object();
  visit_fields(recipe, [&](const char* name, const auto& value) { json[name] = value_to_json(value); });
  return json;
}

Recipe recipe_from_json(const nlohmann::json& fields, const std::string& where, const Recipe& base) {
  if (!fields.is_object()) {
    throw std::invalid_argument(fmt::format("{}: a recipe is a JSON object, not {}", where, fields.type_name()));
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
          fmt::format("{}: unknown recipe field \"{}\"; known are {}", where, name, fmt::join(known, ", ")));
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

std::string_view name_of(Device value) { return enum_name(value); }
std::string_view name_of(Autocast value) { return enum_name(value); }
std::string_view name_of(Attention value) { return enum_name(value); }

}  // namespace model
