// JSON documents as structs. A struct names its fields once. Reading, checking, writing and the schema
// (tests/results/schema.h) follow:
//   struct Session {
//     std::string started;
//     std::optional<double> ms;
//     std::optional<int64_t> tries;
//
//     LADDER_FIELDS(Session, started, (ms, {.name = "median_ms", .above = 0}), (tries, absent))
//   };
// A field is a text, number, bool, enum of enums.h, JSON object as it is, such a struct, or type with a Form. It may
// also be a std::optional, std::vector or std::map (by text) of these. An optional field without a value is null.
// A struct that is a whole document says so: `static constexpr auto kind = "gate", about = "A gate's verdict"`.
// A member `void check(const std::string& where) const` checks what Rules cannot.
// A struct may have a short form: its base `Short` lists those fields, and `bool Short::is_short() const` tells when.
#pragma once

#include "files/json_file.h"
#include "results/enums.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace results {

// What JSON may have in place of a field's value. `null`: null, for a std::optional without a value. `absent`: no
// field, for such an optional or a member with its default. `null_if_default`: null, for a member with its default.
enum class None { null, absent, null_if_default };

// What is special about a field. A list's limits of numbers and texts are its items'.
struct Rules {
  const char* name = nullptr;  // in JSON; none: the member's
  None none = None::null;
  std::optional<double> least = {}, above = {}, most = {};  // of a number; least and most: a text's characters
  const char* pattern = nullptr;                            // of a text: a regular expression
  size_t items = 0, most_items = SIZE_MAX;                  // of a list or a map
};
constexpr Rules absent{.none = None::absent}, null_if_default{.none = None::null_if_default};
constexpr Rules from_0{.least = 0}, from_1{.least = 1}, positive{.above = 0}, some{.items = 1};

// A struct's fields: members, each alone or in brackets with its Rules. LADDER_MORE_FIELDS has its base's fields, too.
#define LADDER_FIELDS(Self, ...)                        \
  static constexpr auto listed = #Self;                 \
  static void fields(auto&& field) {                    \
    using Listed = Self;                                \
    LADDER_REPEAT(__VA_OPT__(LADDER_EACH(__VA_ARGS__))) \
  }
#define LADDER_MORE_FIELDS(Base, Self, ...)             \
  static constexpr auto listed = #Self;                 \
  static void fields(auto&& field) {                    \
    using Listed = Self;                                \
    Base::fields(field);                                \
    LADDER_REPEAT(__VA_OPT__(LADDER_EACH(__VA_ARGS__))) \
  }
// LADDER_PROBE makes two arguments of a field in brackets, so that LADDER_SECOND finds LADDER_SPECIAL.
#define LADDER_EACH(one, ...) \
  LADDER_SECOND(LADDER_PROBE one, LADDER_PLAIN, ~)(one) __VA_OPT__(LADDER_AGAIN LADDER_BRACKETS(__VA_ARGS__))
#define LADDER_AGAIN() LADDER_EACH
#define LADDER_BRACKETS ()
#define LADDER_PROBE(...) ~, LADDER_SPECIAL
#define LADDER_SECOND(...) LADDER_SECOND_OF(__VA_ARGS__)
#define LADDER_SECOND_OF(first, second, ...) second
#define LADDER_PLAIN(member) field(#member, &Listed::member, ::results::Rules{});
#define LADDER_SPECIAL(field) LADDER_WITH_RULES field
#define LADDER_WITH_RULES(member, ...)                                           \
  {                                                                              \
    const ::results::Rules rules = __VA_ARGS__;                                  \
    field(rules.name == nullptr ? #member : rules.name, &Listed::member, rules); \
  }
// Enough for 60 fields.
#define LADDER_REPEAT(...) LADDER_REPEAT_3(LADDER_REPEAT_3(LADDER_REPEAT_3(LADDER_REPEAT_3(__VA_ARGS__))))
#define LADDER_REPEAT_3(...) LADDER_REPEAT_2(LADDER_REPEAT_2(LADDER_REPEAT_2(LADDER_REPEAT_2(__VA_ARGS__))))
#define LADDER_REPEAT_2(...) LADDER_REPEAT_1(LADDER_REPEAT_1(LADDER_REPEAT_1(LADDER_REPEAT_1(__VA_ARGS__))))
#define LADDER_REPEAT_1(...) __VA_ARGS__

// Reading and writing of a struct is compiled once, in documents.cpp.
#define LADDER_COMPILED_ONCE(Struct)                  \
  extern template files::Json json_of(const Struct&); \
  extern template Struct value_from(const files::Json&, const std::string&, const Rules&);

// How a type that is defined elsewhere stands in JSON: `static files::Json of(const T&)` and `static T from(const
// files::Json&, const std::string& where)`, which throws as value_from.
template <class T>
struct Form;

namespace fields_detail {

struct Visitor {
  void operator()(const char* /*name*/, auto /*member*/, const Rules& /*rules*/) const {}
};

// Whether it is a whole number that T can hold. 8.0 counts as one.
template <std::integral T>
bool is_whole(const files::Json& json) {
  constexpr double exact = 9007199254740992;  // 2^53: beyond it a double does not have the last digits
  if (json.is_number_unsigned()) return std::in_range<T>(json.get<uint64_t>());
  if (json.is_number_integer()) return std::in_range<T>(json.get<int64_t>());
  if (!json.is_number_float()) return false;
  const auto value = json.get<double>();
  return std::abs(value) <= exact && std::trunc(value) == value && std::in_range<T>(static_cast<int64_t>(value));
}

// All throw std::invalid_argument with `where` in front.
[[noreturn]] void refuse(const std::string& where, const std::string& why);
void check_type(const files::Json& json, bool fits, const char* type, const std::string& where);
void check_number(const files::Json& number, const Rules& rules, const std::string& where);
void check_text(const std::string& text, const Rules& rules, const std::string& where);
void check_size(size_t items, const Rules& rules, const std::string& where);
void check_kind(const files::Json& json, const char* kind, const std::string& where);
void check_names(const files::Json& json, const std::vector<std::string>& known, const std::string& where);

// "file.json: field [rungs][2]" of "file.json: field [rungs]".
std::string place_of(const std::string& where, const std::string& key);

template <class T>
void check_known(const files::Json& json, bool is_document, const std::string& where) {
  std::vector<std::string> known;
  if (is_document) known = {"kind", "schema_version"};
  T::fields([&](const char* name, auto /*member*/, const Rules& /*rules*/) { known.emplace_back(name); });
  check_names(json, known, where);
}

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;
template <class T>
inline constexpr bool is_map = false;
template <class T>
inline constexpr bool is_map<std::map<std::string, T>> = true;

}  // namespace fields_detail

template <class T>
concept HasForm = requires(const T& value) {
  Form<T>::of(value);
};

template <class T>
concept HasFields = requires {
  T::fields(fields_detail::Visitor{});
};

template <class T>
concept Document = HasFields<T> && requires {
  { T::kind } -> std::convertible_to<const char*>;  // a field may be called so, too
};

template <class T>
concept HasShort = std::derived_from<T, typename T::Short>;

template <class T>
files::Json json_of(const T& value) {
  using files::Json;
  if constexpr (fields_detail::is_optional<T>) {
    return value ? json_of(*value) : Json();
  } else if constexpr (fields_detail::is_vector<T>) {
    Json list = Json::array();
    for (const auto& item : value) list.push_back(json_of(item));
    return list;
  } else if constexpr (fields_detail::is_map<T>) {
    Json object = Json::object();
    for (const auto& [key, item] : value) object[key] = json_of(item);
    return object;
  } else if constexpr (Named<T>) {
    return name_of(value);
  } else if constexpr (HasForm<T>) {
    return Form<T>::of(value);
  } else if constexpr (HasFields<T>) {
    Json object = Json::object();
    if constexpr (Document<T>) object = {{"kind", T::kind}, {"schema_version", 1}};
    const auto write = [&](const char* name, auto member, const Rules& rules) {
      const auto& field = value.*member;
      Json json = json_of(field);
      if constexpr (fields_detail::is_optional<std::remove_cvref_t<decltype(field)>>) {
        if (rules.none == None::absent && !field) return;
      } else if (rules.none != None::null && json == json_of(T{}.*member)) {
        if (rules.none == None::absent) return;
        json = nullptr;
      }
      object[name] = std::move(json);
    };
    if constexpr (HasShort<T>) {
      value.is_short() ? T::Short::fields(write) : T::fields(write);
    } else {
      T::fields(write);
    }
    return object;
  } else {
    return value;
  }
}

// The value of `json`. Throws std::invalid_argument for a field that is missing, unknown, of another type, or against
// its rules. The message begins with `where` and names the field.
template <class T>
T value_from(const files::Json& json, const std::string& where, const Rules& rules = {}) {
  using files::Json;
  using namespace fields_detail;
  if constexpr (is_optional<T>) {
    if (json.is_null()) return std::nullopt;
    return value_from<typename T::value_type>(json, where, rules);
  } else if constexpr (is_vector<T>) {
    check_type(json, json.is_array(), "array", where);
    check_size(json.size(), rules, where);
    T list;
    list.reserve(json.size());
    for (const Json& item : json) {
      list.push_back(value_from<typename T::value_type>(item, place_of(where, std::to_string(list.size())), rules));
    }
    return list;
  } else if constexpr (is_map<T>) {
    check_type(json, json.is_object(), "object", where);
    check_size(json.size(), rules, where);
    T map;
    for (const auto& [key, item] : json.items()) {
      map[key] = value_from<typename T::mapped_type>(item, place_of(where, key), rules);
    }
    return map;
  } else if constexpr (HasFields<T>) {
    check_type(json, json.is_object(), "object", where);
    T value{};
    const auto read = [&](const char* name, auto member, const Rules& of_field) {
      using Field = std::remove_cvref_t<decltype(value.*member)>;
      const auto found = json.find(name);
      if (found == json.end()) {
        if (of_field.none != None::absent) refuse(where, fmt::format("field \"{}\" is missing", name));
      } else if (of_field.none != None::null_if_default || !found->is_null()) {
        if constexpr (is_optional<Field>) {
          // Where an absent field means none, null is a value of its own, or wrong.
          if (of_field.none == None::absent) {
            value.*member = value_from<typename Field::value_type>(*found, place_of(where, name), of_field);
            return;
          }
        }
        value.*member = value_from<Field>(*found, place_of(where, name), of_field);
      }
    };
    if constexpr (Document<T>) check_kind(json, T::kind, where);
    bool is_short = false;
    if constexpr (HasShort<T>) {
      T::Short::fields(read);
      is_short = value.is_short();
      if (is_short) check_known<typename T::Short>(json, Document<T>, where);
    }
    if (!is_short) {
      check_known<T>(json, Document<T>, where);
      T::fields(read);
    }
    if constexpr (requires { value.check(where); }) value.check(where);
    return value;
  } else if constexpr (HasForm<T>) {
    return Form<T>::from(json, where);
  } else if constexpr (std::same_as<T, Json>) {
    check_type(json, json.is_object(), "object", where);
    return json;
  } else if constexpr (Named<T>) {
    const auto found = std::ranges::find(Names<T>::list, json);
    if (found == Names<T>::list.end()) {
      refuse(where,
             fmt::format("must be one of {}, got {}", fmt::join(Names<T>::list, ", "), files::shown_value(json)));
    }
    return static_cast<T>(found - Names<T>::list.begin());
  } else if constexpr (std::same_as<T, std::string>) {
    check_type(json, json.is_string(), "string", where);
    check_text(json.get_ref<const std::string&>(), rules, where);
    return json.get<T>();
  } else if constexpr (std::same_as<T, bool>) {
    check_type(json, json.is_boolean(), "boolean", where);
    return json.get<T>();
  } else {
    if constexpr (std::integral<T>) {
      check_type(json, is_whole<T>(json), "integer", where);
    } else {
      check_type(json, json.is_number(), "number", where);
    }
    check_number(json, rules, where);
    return json.get<T>();
  }
}

// Calls `on_text` with every text in the value, and `on_json` with all JSON that it keeps as it is.
template <class T>
void each_text(T& value, const auto& on_text, const auto& on_json) {
  if constexpr (fields_detail::is_optional<T>) {
    if (value) each_text(*value, on_text, on_json);
  } else if constexpr (fields_detail::is_vector<T>) {
    for (auto& item : value) each_text(item, on_text, on_json);
  } else if constexpr (fields_detail::is_map<T>) {
    T shown;
    for (auto& [key, item] : value) {
      std::string name = key;
      on_text(name);
      each_text(item, on_text, on_json);
      shown.emplace(std::move(name), std::move(item));
    }
    value = std::move(shown);
  } else if constexpr (HasFields<T>) {
    T::fields(
        [&](const char* /*name*/, auto member, const Rules& /*rules*/) { each_text(value.*member, on_text, on_json); });
  } else if constexpr (std::same_as<T, std::string>) {
    on_text(value);
  } else if constexpr (std::same_as<T, files::Json>) {
    on_json(value);
  }
}

// A document's file. Throws std::invalid_argument for what value_from refuses. Otherwise throws as read_any_json and
// write_json in files/json_file.h.
template <Document T>
T read_document(const std::filesystem::path& file) {
  return value_from<T>(files::read_any_json(file), file.string());
}

template <Document T>
void write_document(const std::filesystem::path& file, const T& document, files::Links links = files::Links::replaced) {
  const files::Json json = json_of(document);
  (void)value_from<T>(json, file.string());
  files::write_json(file, json, links);
}

}  // namespace results
