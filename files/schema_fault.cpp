#include "files/schema_fault.h"

#include "files/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <regex>
#include <string_view>
#include <vector>

namespace files {

namespace {

struct Place {
  std::string text = {};  // "[timing][step_ms][2]"
  size_t depth = 0;

  [[nodiscard]] Place operator[](const std::string& key) const {
    return {.text = fmt::format("{}[{}]", text, key), .depth = depth + 1};
  }
};

struct Fault {
  size_t depth;  // of alternatives in a schema the one that fits deepest is meant
  std::string place, what;
};
using Found = std::optional<Fault>;

// A part of a schema; null where it has none.
const Json& part_of(const Json& schema, const char* name) {
  static const Json none;
  const auto found = schema.find(name);
  return found == schema.end() ? none : *found;
}

bool is_of_type(const Json& value, const std::string& type) {
  if (type != "integer") return value.type_name() == type;
  constexpr double most = 9223372036854775808.0;  // 2^63
  return value.is_number_integer() ||
         (value.is_number_float() && std::trunc(value.get<double>()) == value && std::abs(value.get<double>()) < most);
}

std::vector<std::string> all_of(const Json& one_or_list) {
  std::vector<std::string> all;
  for (const Json& one : one_or_list.is_array() ? one_or_list : Json::array({one_or_list})) {
    all.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  }
  return all;
}

Found fault_of_kind(const Json& value, const Json& schema, const Place& place) {
  const auto fault = [&](size_t depth, const std::string& rule) {
    return Fault{depth, place.text, fmt::format("must be {}, got {}", rule, shown_value(value))};
  };
  if (schema.contains("const") && value != schema["const"]) return fault(0, shown_value(schema["const"]));
  if (schema.contains("type")) {
    const std::vector<std::string> types = all_of(schema["type"]);
    const auto fits = [&](const std::string& type) { return is_of_type(value, type); };
    if (std::ranges::none_of(types, fits)) {
      return fault(types.front() == "null" ? 0 : place.depth, fmt::format("of type {}", fmt::join(types, " or ")));
    }
  }
  if (schema.contains("enum") && std::ranges::find(schema["enum"], value) == schema["enum"].end()) {
    return fault(place.depth + 1, fmt::format("one of {}", fmt::join(all_of(schema["enum"]), ", ")));
  }
  return {};
}

Found fault_of_size(const Json& value, const Json& schema, const Place& place) {
  const auto beyond = [&](const char* least, const char* most, double size, const std::string& unit) -> Found {
    for (const char* name : {least, most}) {
      if (!schema.contains(name)) continue;
      const bool good = name == least ? size >= schema[name].get<double>() : size <= schema[name].get<double>();
      if (good) continue;
      return Fault{
          place.depth + 1, place.text,
          fmt::format("must {} {} {}{}, got {}", unit.empty() ? "be" : "have", name == least ? "at least" : "at most",
                      schema[name].dump(), unit, unit.empty() ? value.dump() : fmt::format("{}", size))};
    }
    return {};
  };
  if (value.is_array()) return beyond("minItems", "maxItems", static_cast<double>(value.size()), " items");
  if (value.is_object()) return beyond("minProperties", "maxProperties", static_cast<double>(value.size()), " fields");
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    constexpr size_t most_for_regex = 4096;  // it recurses for each character
    if (const std::string pattern = schema.value("pattern", "");
        !pattern.empty() && (text.size() > most_for_regex || !std::regex_search(text, std::regex(pattern)))) {
      return Fault{place.depth + 1, place.text, fmt::format("must match {}, got {}", pattern, shown_value(value))};
    }
    const auto characters = std::ranges::count_if(text, [](char byte) { return (byte & 0xc0) != 0x80; });
    return beyond("minLength", "maxLength", static_cast<double>(characters), " characters");
  }
  if (!value.is_number()) return {};
  if (schema.contains("exclusiveMinimum") && value.get<double>() <= schema["exclusiveMinimum"].get<double>()) {
    return Fault{place.depth + 1, place.text,
                 fmt::format("must be above {}, got {}", schema["exclusiveMinimum"].dump(), value.dump())};
  }
  return beyond("minimum", "maximum", value.get<double>(), "");
}

class Search {
 public:
  explicit Search(const Json& root) : root_(root) {}

  // The first fault of the value at that place.
  [[nodiscard]] Found in(const Json& value, const Json& schema, const Place& place) const {
    if (const std::string ref = schema.value("$ref", ""); !ref.empty()) {
      return in(value, root_.at(Json::json_pointer(ref.substr(1))), place);
    }
    if (Found found = fault_of_kind(value, schema, place)) return found;
    if (Found found = fault_of_size(value, schema, place)) return found;
    if (Found found = value.is_array() ? in_items(value, schema, place) : Found{}) return found;
    if (Found found = value.is_object() ? in_fields(value, schema, place) : Found{}) return found;
    if (schema.contains("if")) {
      const Json& branch = part_of(schema, in(value, schema["if"], place) ? "else" : "then");
      if (Found found = branch.is_object() ? in(value, branch, place) : Found{}) return found;
    }
    for (const Json& part : part_of(schema, "allOf")) {
      if (Found found = in(value, part, place)) return found;
    }
    Found found = in_one_of(value, part_of(schema, "oneOf"), place);
    return found ? found : in_one_of(value, part_of(schema, "anyOf"), place);
  }

 private:
  [[nodiscard]] Found in_items(const Json& value, const Json& schema, const Place& place) const {
    const Json& of_item = part_of(schema, "items");
    for (size_t i = 0; i < value.size() && of_item.is_object(); ++i) {
      if (Found found = in(value[i], of_item, place[std::to_string(i)])) return found;
    }
    return {};
  }

  // In all of the alternatives: the fault of the one that fits deepest.
  [[nodiscard]] Found in_one_of(const Json& value, const Json& alternatives, const Place& place) const {
    Found deepest;
    for (const Json& alternative : alternatives) {
      Found found = in(value, alternative, place);
      if (!found) return {};
      if (!deepest || found->depth > deepest->depth) deepest = std::move(found);
    }
    return deepest;
  }

  [[nodiscard]] Found in_fields(const Json& value, const Json& schema, const Place& place) const {
    const Json &known = part_of(schema, "properties"), &others = part_of(schema, "additionalProperties");
    for (const auto& [name, field] : value.items()) {
      const Json& of_field = known.contains(name) ? known[name] : others;
      if (of_field == false) {
        std::vector<std::string> names;
        for (const auto& [one, ignored] : known.items()) names.push_back(one);
        return Fault{
            place.depth + 1, place.text,
            fmt::format("unknown field {}; the known fields are {}", shown_value(name), fmt::join(names, ", "))};
      }
      if (!of_field.is_object()) continue;
      if (Found found = in(field, of_field, place[name])) return found;
    }
    for (const Json& name : part_of(schema, "required")) {
      if (value.contains(name.get_ref<const std::string&>())) continue;
      return Fault{place.depth + 1, place.text, fmt::format("field {} is missing", shown_value(name))};
    }
    return {};
  }

  const Json& root_;
};

}  // namespace

std::string schema_fault(const Json& document, const Json& schema) {
  const Found fault = Search(schema).in(document, schema, {});
  if (!fault) return "";
  const std::string place =
      fault->place.empty() ? "" : fmt::format("field {}: ", shortened(printable(fault->place), 200));
  return place + shortened(printable(fault->what), 300);
}

std::string shown_value(const Json& value) {
  return shortened(printable(value.is_structured() ? value.type_name() : value.dump()), 60);
}

}  // namespace files
