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
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
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
size_t place_among(const files::Json& json, const std::vector<std::string_view>& names, const std::string& where);

// "file.json: field [rungs][2]" of "file.json: field [rungs]".
std::string place_of(const std::string& where, const std::string& key);

// What is done with values of one type. Code for each type, and none for each field, keeps a build short.
struct Type {
  files::Json (*write)(const void* value);
  void (*read)(void* value, const files::Json&, const std::string& where, const Rules&);
  bool (*has_value)(const void* optional) = nullptr;  // none: the type is no std::optional
  void (*read_value)(void* optional, const files::Json&, const std::string& where, const Rules&) = nullptr;
};

struct Field {
  const char* name;
  Rules rules;
  std::ptrdiff_t offset;  // in its struct, in bytes
  const Type* type;
};

struct Struct {
  const char* kind = nullptr;  // of a document
  const void* plain = nullptr;
  std::vector<Field> fields, short_fields = {};
  bool (*is_short)(const void*) = nullptr;
  void (*check)(const void*, const std::string& where) = nullptr;
};

void add_field(std::vector<Field>& fields, const char* name, const Rules& rules, const void* member, const void* of,
               const Type& type);
files::Json write_struct(const void* value, const Struct& of);
void read_struct(void* value, const Struct& of, const files::Json& json, const std::string& where);
// add: makes the next item of the list, or the one of that key of the map, and returns it.
void read_items(void* list, const files::Json& json, const std::string& where, const Rules& rules, const Type& item,
                void* (*add)(void* list));
void read_map(void* map, const files::Json& json, const std::string& where, const Rules& rules, const Type& item,
              void* (*add)(void* map, const std::string& key));

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

namespace fields_detail {

template <class T>
const Type& type_of();

template <class T>
const Struct& struct_of() {
  static const T plain{};
  static const Struct made = [] {
    Struct of{.kind = nullptr, .plain = &plain, .fields = {}};
    const auto add_to = [](std::vector<Field>& fields) {
      return [&fields]<class Class, class Member>(const char* name, Member Class::*member, const Rules& rules) {
        add_field(fields, name, rules, &(plain.*member), &plain, type_of<Member>());
      };
    };
    T::fields(add_to(of.fields));
    if constexpr (Document<T>) of.kind = T::kind;
    if constexpr (HasShort<T>) {
      T::Short::fields(add_to(of.short_fields));
      of.is_short = [](const void* value) { return static_cast<const T*>(value)->is_short(); };
    }
    if constexpr (requires(const T& value, const std::string& where) { value.check(where); }) {
      of.check = [](const void* value, const std::string& where) { static_cast<const T*>(value)->check(where); };
    }
    return of;
  }();
  return made;
}

template <class T>
files::Json write_value(const void* value) {
  using files::Json;
  const T& of = *static_cast<const T*>(value);
  if constexpr (is_optional<T>) {
    return of ? type_of<typename T::value_type>().write(&*of) : Json();
  } else if constexpr (is_vector<T>) {
    Json list = Json::array();
    for (const auto& item : of) list.push_back(type_of<typename T::value_type>().write(&item));
    return list;
  } else if constexpr (is_map<T>) {
    Json object = Json::object();
    for (const auto& [key, item] : of) object[key] = type_of<typename T::mapped_type>().write(&item);
    return object;
  } else if constexpr (Named<T>) {
    return name_of(of);
  } else if constexpr (HasForm<T>) {
    return Form<T>::of(of);
  } else if constexpr (HasFields<T>) {
    return write_struct(value, struct_of<T>());
  } else {
    return of;
  }
}

template <class T>
void read_value(void* value, const files::Json& json, const std::string& where, const Rules& rules) {
  using files::Json;
  T& to = *static_cast<T*>(value);
  if constexpr (is_optional<T>) {
    to.reset();
    if (!json.is_null()) type_of<typename T::value_type>().read(&to.emplace(), json, where, rules);
  } else if constexpr (is_vector<T>) {
    to.clear();
    read_items(value, json, where, rules, type_of<typename T::value_type>(),
               [](void* list) -> void* { return &static_cast<T*>(list)->emplace_back(); });
  } else if constexpr (is_map<T>) {
    to.clear();
    read_map(value, json, where, rules, type_of<typename T::mapped_type>(),
             [](void* map, const std::string& key) -> void* { return &(*static_cast<T*>(map))[key]; });
  } else if constexpr (HasFields<T>) {
    read_struct(value, struct_of<T>(), json, where);
  } else if constexpr (HasForm<T>) {
    to = Form<T>::from(json, where);
  } else if constexpr (std::same_as<T, Json>) {
    check_type(json, json.is_object(), "object", where);
    to = json;
  } else if constexpr (Named<T>) {
    to = static_cast<T>(place_among(json, {Names<T>::list.begin(), Names<T>::list.end()}, where));
  } else if constexpr (std::same_as<T, std::string>) {
    check_type(json, json.is_string(), "string", where);
    check_text(json.get_ref<const std::string&>(), rules, where);
    to = json.get_ref<const std::string&>();
  } else if constexpr (std::same_as<T, bool>) {
    check_type(json, json.is_boolean(), "boolean", where);
    to = json.get<T>();
  } else {
    if constexpr (std::integral<T>) {
      check_type(json, is_whole<T>(json), "integer", where);
    } else {
      check_type(json, json.is_number(), "number", where);
    }
    check_number(json, rules, where);
    to = json.get<T>();
  }
}

template <class T>
const Type& type_of() {
  static constexpr Type plain{.write = write_value<T>, .read = read_value<T>};
  if constexpr (is_optional<T>) {
    static constexpr Type optional{
        .write = write_value<T>,
        .read = read_value<T>,
        .has_value = [](const void* value) { return static_cast<const T*>(value)->has_value(); },
        .read_value =
            [](void* value, const files::Json& json, const std::string& where, const Rules& rules) {
              type_of<typename T::value_type>().read(&static_cast<T*>(value)->emplace(), json, where, rules);
            }};
    return optional;
  } else {
    return plain;
  }
}

}  // namespace fields_detail

template <class T>
files::Json json_of(const T& value) {
  return fields_detail::type_of<T>().write(&value);
}

// The value of `json`. Throws std::invalid_argument for a field that is missing, unknown, of another type, or against
// its rules. The message begins with `where` and names the field.
template <class T>
T value_from(const files::Json& json, const std::string& where, const Rules& rules = {}) {
  T value{};
  fields_detail::type_of<T>().read(&value, json, where, rules);
  return value;
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
