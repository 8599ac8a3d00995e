#include "results/fields.h"

#include "files/printable.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <regex>
#include <utility>

namespace results::fields_detail {

void refuse(const std::string& where, const std::string& why) {
  throw std::invalid_argument(fmt::format("{}: {}", where, files::shortened(files::printable(why), 300)));
}

void check_type(const files::Json& json, bool fits, const char* type, const std::string& where) {
  if (!fits) refuse(where, fmt::format("must be of type {}, got {}", type, files::shown_value(json)));
}

void check_number(const files::Json& number, const Rules& rules, const std::string& where) {
  const auto value = number.get<double>();
  const auto check = [&](bool fits, const char* rule, const std::optional<double>& limit) {
    if (limit && !fits) refuse(where, fmt::format("must be {} {}, got {}", rule, *limit, files::shown_value(number)));
  };
  check(value >= rules.least.value_or(value), "at least", rules.least);
  check(value > rules.above.value_or(value), "above", rules.above);
  check(value <= rules.most.value_or(value), "at most", rules.most);
}

void check_text(const std::string& text, const Rules& rules, const std::string& where) {
  constexpr size_t most_for_regex = 4096;  // it recurses for each character
  if (rules.pattern != nullptr &&
      (text.size() > most_for_regex || !std::regex_search(text, std::regex(rules.pattern)))) {
    refuse(where, fmt::format("must match {}, got {}", rules.pattern, files::shown_value(text)));
  }
  const auto characters = std::ranges::count_if(text, [](char byte) { return (byte & 0xc0) != 0x80; });
  const auto size = static_cast<double>(characters);
  if (size < rules.least.value_or(size)) {
    refuse(where, fmt::format("must have at least {} characters, got {}", *rules.least, characters));
  }
  if (size > rules.most.value_or(size)) {
    refuse(where, fmt::format("must have at most {} characters, got {}", *rules.most, characters));
  }
}

void check_size(size_t items, const Rules& rules, const std::string& where) {
  if (items < rules.items) refuse(where, fmt::format("must have at least {} items, got {}", rules.items, items));
  if (items > rules.most_items)
    refuse(where, fmt::format("must have at most {} items, got {}", rules.most_items, items));
}

size_t place_among(const files::Json& json, const std::vector<std::string_view>& names, const std::string& where) {
  const auto found = std::ranges::find_if(names, [&](std::string_view name) { return json == files::Json(name); });
  if (found == names.end()) {
    refuse(where, fmt::format("must be one of {}, got {}", fmt::join(names, ", "), files::shown_value(json)));
  }
  return static_cast<size_t>(found - names.begin());
}

std::string place_of(const std::string& where, const std::string& key) {
  return fmt::format("{}{}[{}]", where, where.ends_with(']') ? "" : ": field ",
                     files::shortened(files::printable(key), 60));
}

namespace {

void check_kind(const files::Json& json, const char* kind, const std::string& where) {
  const files::Json found = files::kind_of(json), version = files::field_or_null(json, "schema_version");
  if (found != kind) {
    throw std::invalid_argument(
        fmt::format("{}: not a {}: \"kind\" is {}, \"{}\" is expected", where, kind, files::shown_value(found), kind));
  }
  if (version.is_null()) refuse(where, "\"schema_version\" is missing; this program reads version 1");
  if (version != 1) {
    refuse(where, fmt::format("\"schema_version\" is {}; this program reads version 1", files::shown_value(version)));
  }
}

void check_known(const files::Json& json, const std::vector<Field>& fields, bool is_document,
                 const std::string& where) {
  std::vector<std::string> known;
  if (is_document) known = {"kind", "schema_version"};
  for (const Field& field : fields) known.emplace_back(field.name);
  for (const auto& [name, value] : json.items()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    refuse(where,
           fmt::format("unknown field {}; the known fields are {}", files::shown_value(name), fmt::join(known, ", ")));
  }
}

const void* at(const void* of, const Field& field) { return static_cast<const char*>(of) + field.offset; }
void* at(void* of, const Field& field) { return static_cast<char*>(of) + field.offset; }

void read_field(void* member, const Field& field, const files::Json& json, const std::string& where) {
  const auto found = json.find(field.name);
  if (found == json.end()) {
    if (field.rules.none != None::absent) refuse(where, fmt::format("field \"{}\" is missing", field.name));
    return;
  }
  if (field.rules.none == None::null_if_default && found->is_null()) return;
  // Where an absent field means none, null is a value of its own, or wrong.
  const bool is_value = field.type->has_value != nullptr && field.rules.none == None::absent;
  (is_value ? field.type->read_value : field.type->read)(member, *found, place_of(where, field.name), field.rules);
}

}  // namespace

void add_field(std::vector<Field>& fields, const char* name, const Rules& rules, const void* member, const void* of,
               const Type& type) {
  fields.push_back({name, rules, static_cast<const char*>(member) - static_cast<const char*>(of), &type});
}

void read_items(void* list, const files::Json& json, const std::string& where, const Rules& rules, const Type& item,
                void* (*add)(void* list)) {
  check_type(json, json.is_array(), "array", where);
  check_size(json.size(), rules, where);
  size_t i = 0;
  for (const files::Json& one : json) item.read(add(list), one, place_of(where, std::to_string(i++)), rules);
}

void read_map(void* map, const files::Json& json, const std::string& where, const Rules& rules, const Type& item,
              void* (*add)(void* map, const std::string& key)) {
  check_type(json, json.is_object(), "object", where);
  check_size(json.size(), rules, where);
  for (const auto& [key, one] : json.items()) item.read(add(map, key), one, place_of(where, key), rules);
}

files::Json write_struct(const void* value, const Struct& of) {
  files::Json object = files::Json::object();
  if (of.kind != nullptr) object = {{"kind", of.kind}, {"schema_version", 1}};
  for (const Field& field : of.is_short != nullptr && of.is_short(value) ? of.short_fields : of.fields) {
    const void* const member = at(value, field);
    const None none = field.rules.none;
    if (field.type->has_value != nullptr) {
      if (none == None::absent && !field.type->has_value(member)) continue;
      object[field.name] = field.type->write(member);
      continue;
    }
    files::Json json = field.type->write(member);
    const bool is_default = none != None::null && json == field.type->write(at(of.plain, field));
    if (is_default && none == None::absent) continue;
    object[field.name] = is_default ? files::Json() : std::move(json);
  }
  return object;
}

void read_struct(void* value, const Struct& of, const files::Json& json, const std::string& where) {
  check_type(json, json.is_object(), "object", where);
  if (of.kind != nullptr) check_kind(json, of.kind, where);
  for (const Field& field : of.short_fields) read_field(at(value, field), field, json, where);
  const bool is_short = of.is_short != nullptr && of.is_short(value);
  const std::vector<Field>& fields = is_short ? of.short_fields : of.fields;
  check_known(json, fields, of.kind != nullptr, where);
  if (!is_short) {
    for (const Field& field : fields) read_field(at(value, field), field, json, where);
  }
  if (of.check != nullptr) of.check(value, where);
}

}  // namespace results::fields_detail
