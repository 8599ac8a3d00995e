#include "results/fields.h"

#include "files/printable.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <regex>

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

void check_names(const files::Json& json, const std::vector<std::string>& known, const std::string& where) {
  for (const auto& [name, value] : json.items()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    refuse(where,
           fmt::format("unknown field {}; the known fields are {}", files::shown_value(name), fmt::join(known, ", ")));
  }
}

std::string place_of(const std::string& where, const std::string& key) {
  return fmt::format("{}{}[{}]", where, where.ends_with(']') ? "" : ": field ",
                     files::shortened(files::printable(key), 60));
}

}  // namespace results::fields_detail
