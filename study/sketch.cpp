#include "study/sketch.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <stdexcept>

namespace study {

using files::field_or_null;
using files::Json;

namespace {

// Significant bits of the types, and of the mantissa's of fp8: Higham and Mary, Mixed precision algorithms in numerical
// linear algebra (2022), table 2.1. A sum in float32 is rounded at each term, so its bits are two fewer.
const std::map<std::string, int>& bits_of_types() {
  static const std::map<std::string, int> bits{{"float64", 51},        {"float32", 22},    {"tf32", 11},
                                               {"float16", 11},        {"bfloat16", 8},    {"float8_e4m3fn", 4},
                                               {"float8_e4m3fnuz", 4}, {"float8_e5m2", 3}, {"float8_e5m2fnuz", 3}};
  return bits;
}

double number_in(const Json& value) {
  if (value.is_null()) return NAN;  // not finite
  if (!value.is_number()) throw std::invalid_argument("a sketch: a number is none");
  return value.get<double>();
}

Sums sums_in(const Json& list) {
  Sums sums{};
  if (!list.is_array() || list.size() != sums.size()) throw std::invalid_argument("a sketch: not nine numbers");
  std::ranges::transform(list, sums.begin(), number_in);
  return sums;
}

std::vector<OptimizerSettings> settings_in(const Json& list) {
  std::vector<OptimizerSettings> all;
  for (const Json& one : list.is_array() ? list : Json::array()) {
    OptimizerSettings& settings = all.emplace_back();
    for (const auto& [name, value] : one.items()) {
      if (value.is_string()) {
        settings.optimizer = value.get<std::string>();
      } else if (value.is_array()) {
        std::ranges::transform(value, std::back_inserter(settings.numbers[name]), number_in);
      }
    }
  }
  return all;
}

std::vector<Sums> steps_in(const Json& steps) {
  if (!steps.is_array()) throw std::invalid_argument("a sketch: no list of steps");
  std::vector<Sums> all(steps.size());
  std::ranges::transform(steps, all.begin(), sums_in);
  return all;
}

}  // namespace

double unit_roundoff(const std::string& type) {
  const auto known = bits_of_types().find(type);
  if (known == bits_of_types().end()) return 1;
  return std::ldexp(1, type == "float32" ? -24 : type == "float64" ? -53 : -known->second);
}

Sketch sketch_of(const Json& sketch) {
  Sketch read;
  const Json parameters = field_or_null(sketch, "parameters"), skipped = field_or_null(sketch, "skipped_steps");
  if (!parameters.is_array()) throw std::invalid_argument("a sketch without parameters");
  read.skipped_steps = skipped.is_number_integer() ? skipped.get<int64_t>() : 0;
  read.has_dropout = field_or_null(sketch, "has_dropout") == Json(true);
  const std::vector<OptimizerSettings> settings = settings_in(field_or_null(sketch, "settings"));
  const auto text = [](const Json& value) { return value.is_string() ? value.get<std::string>() : ""; };
  for (const Json& one : parameters) {
    SketchedParameter& parameter = read.parameters.emplace_back();
    parameter.name = text(field_or_null(one, "name"));
    parameter.type = text(field_or_null(one, "type"));
    for (const Json& size : field_or_null(one, "shape")) parameter.shape.push_back(std::llround(number_in(size)));
    const Json group = field_or_null(one, "settings");
    if (group.is_number_unsigned() && group.get<size_t>() < settings.size()) {
      parameter.settings = settings[group.get<size_t>()];
    }
    parameter.weights = sums_in(field_or_null(one, "weights"));
    parameter.gradients = steps_in(field_or_null(one, "gradients"));
    parameter.changes = steps_in(field_or_null(one, "changes"));
  }
  return read;
}

std::optional<NumberType> least_exact_type(const Json& look, const Json& other) {
  std::optional<NumberType> least;
  for (const Json& one : {look, other}) {
    std::vector<std::string> types;
    for (const char* field : {"products", "parameter_types"}) {
      const Json counts = field_or_null(one, field);
      for (const auto& [name, count] : counts.items()) types.push_back(name);
    }
    const Json operations = field_or_null(one, "operations"), made_in = field_or_null(one, "float32_made_in");
    const bool convolves = std::ranges::any_of(
        operations.items(), [](const auto& each) { return each.key().find("conv") != std::string::npos; });
    for (const char* of : {"products", "convolutions"}) {
      const Json type = field_or_null(made_in, of);
      if (type.is_string() && (convolves || std::string(of) == "products")) types.push_back(type.get<std::string>());
    }
    for (const std::string& type : types) {
      const auto known = bits_of_types().find(type);
      if (known == bits_of_types().end()) return std::nullopt;
      if (!least || known->second < least->bits) least = NumberType{type, known->second};
    }
  }
  return least;
}

}  // namespace study
