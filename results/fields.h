// JSON documents as structs. A struct names its fields once; reading, writing and all else that goes through its fields
// uses that list:
//   struct Session {
//     std::string started;
//     std::optional<double> ms;
//     std::optional<int64_t> tries;
//
//     LADDER_FIELDS(Session, started, (ms, {.name = "median_ms"}), (tries, absent))
//   };
// A field is a text, a number, a bool, an enum of enums.h, JSON as it is, such a struct, a type with a Form, or a
// std::optional, std::vector or std::map (by text) of these. An optional field without a value is null.
// A struct that is a whole document names its schema, too: `static constexpr auto kind = "gate"`. Its `void check(const
// std::string& where) const`, where it has one, checks what a schema cannot say. A member `files::Json others =
// files::Json::object()` keeps the fields that the struct does not list: they are written again.
#pragma once

#include "files/json_file.h"
#include "results/enums.h"

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ablations {

// What JSON may have in place of a field's value.
// null: null, of a std::optional without a value. absent: nothing, of such an optional or a member with its default.
// null_if_default: null, of a member with its default. defaulted: as absent for a reader; a writer writes the value.
enum class None { null, absent, null_if_default, defaulted };

// What is special of a field.
struct Rules {
  const char* name = nullptr;  // in JSON; none: the member's
  None none = None::null;
};
constexpr Rules absent{.none = None::absent}, null_if_default{.none = None::null_if_default},
    defaulted{.none = None::defaulted};

// A struct's fields: members, each alone or in brackets with its Rules. LADDER_MORE_FIELDS has its base's fields, too.
#define LADDER_FIELDS(Self, ...)                        \
  static void fields(auto&& field) {                    \
    using Listed = Self;                                \
    LADDER_REPEAT(__VA_OPT__(LADDER_EACH(__VA_ARGS__))) \
  }
#define LADDER_MORE_FIELDS(Base, Self, ...)             \
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
#define LADDER_PLAIN(member) field(#member, &Listed::member, ::ablations::Rules{});
#define LADDER_SPECIAL(field) LADDER_WITH_RULES field
#define LADDER_WITH_RULES(member, ...)                                           \
  {                                                                              \
    const ::ablations::Rules rules = __VA_ARGS__;                                \
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
  extern template Struct value_from(const files::Json&, const std::string&);

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

template <class T>
bool is_number_for(const files::Json& json) {
  if constexpr (std::integral<T> && !std::same_as<T, bool>) {
    return is_whole<T>(json);
  } else {
    return json.is_number();
  }
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
concept KeepsOthers = std::same_as<decltype(T::others), files::Json>;

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
    if constexpr (KeepsOthers<T>) object = value.others;
    if constexpr (Document<T>) object.update({{"kind", T::kind}, {"schema_version", 1}});
    T::fields([&](const char* name, auto member, const Rules& rules) {
      const auto& field = value.*member;
      Json json = json_of(field);
      if constexpr (fields_detail::is_optional<std::remove_cvref_t<decltype(field)>>) {
        if (rules.none == None::absent && !field) return;
      } else if (rules.none != None::null && rules.none != None::defaulted && json == json_of(T{}.*member)) {
        if (rules.none == None::absent) return;
        json = nullptr;
      }
      object[name] = std::move(json);
    });
    return object;
  } else {
    return value;
  }
}

// The value of `json`. For a document, also inside another one, the schema is checked first. Throws
// std::invalid_argument, which begins with `where` and names the field.
template <class T>
T value_from(const files::Json& json, const std::string& where) {
  using files::Json;
  [[maybe_unused]] const auto refuse = [&](const std::string& why) { throw std::invalid_argument(where + ": " + why); };
  [[maybe_unused]] const auto place = [&](const std::string& key) {
    return fmt::format("{}{}[{}]", where, where.ends_with("]") ? "" : ": field ", key);
  };
  if constexpr (fields_detail::is_optional<T>) {
    if (json.is_null()) return std::nullopt;
    return value_from<typename T::value_type>(json, where);
  } else if constexpr (fields_detail::is_vector<T>) {
    if (!json.is_array()) refuse(fmt::format("must be a list, got {}", json.type_name()));
    T list;
    list.reserve(json.size());
    for (const Json& item : json) {
      list.push_back(value_from<typename T::value_type>(item, place(std::to_string(list.size()))));
    }
    return list;
  } else if constexpr (fields_detail::is_map<T>) {
    if (!json.is_object()) refuse(fmt::format("must be an object, got {}", json.type_name()));
    T map;
    for (const auto& [key, item] : json.items()) map[key] = value_from<typename T::mapped_type>(item, place(key));
    return map;
  } else if constexpr (HasFields<T>) {
    if constexpr (Document<T>) files::check_schema(json, T::kind, where);
    if (!json.is_object()) refuse(fmt::format("must be an object, got {}", json.type_name()));
    T value{};
    [[maybe_unused]] std::set<std::string> listed;
    if constexpr (Document<T>) listed = {"kind", "schema_version"};
    T::fields([&](const char* name, auto member, const Rules& rules) {
      auto& field = value.*member;
      using Field = std::remove_cvref_t<decltype(field)>;
      if constexpr (KeepsOthers<T>) listed.insert(name);
      const auto found = json.find(name);
      if (found != json.end()) {
        if constexpr (fields_detail::is_optional<Field>) {
          // If an absent field means none, null is a value of its own.
          if (rules.none == None::absent) {
            field = value_from<typename Field::value_type>(*found, place(name));
            return;
          }
        }
        if (rules.none == None::null_if_default && found->is_null()) return;
        field = value_from<Field>(*found, place(name));
      } else if (!fields_detail::is_optional<Field> && rules.none != None::defaulted && rules.none != None::absent) {
        refuse(fmt::format("field \"{}\" is missing", name));
      }
    });
    if constexpr (KeepsOthers<T>) {
      for (const auto& [key, item] : json.items()) {
        if (!listed.contains(key)) value.others[key] = item;
      }
    }
    if constexpr (requires { value.check(where); }) value.check(where);
    return value;
  } else if constexpr (HasForm<T>) {
    return Form<T>::from(json, where);
  } else if constexpr (std::same_as<T, Json>) {
    return json;
  } else {
    const bool fits = Named<T> || std::same_as<T, std::string> ? json.is_string()
                      : std::same_as<T, bool>                  ? json.is_boolean()
                                                               : fields_detail::is_number_for<T>(json);
    if (!fits) refuse(fmt::format("{} does not fit the field", json.dump()));
    if constexpr (Named<T>) {
      try {
        return value_of<T>(json.get<std::string>());
      } catch (const std::invalid_argument& error) {
        throw std::invalid_argument(where + ": " + error.what());
      }
    } else {
      return json.get<T>();
    }
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
    for (auto& [key, item] : value) each_text(item, on_text, on_json);
  } else if constexpr (HasFields<T>) {
    T::fields(
        [&](const char* /*name*/, auto member, const Rules& /*rules*/) { each_text(value.*member, on_text, on_json); });
    if constexpr (KeepsOthers<T>) on_json(value.others);
  } else if constexpr (std::same_as<T, std::string>) {
    on_text(value);
  } else if constexpr (std::same_as<T, files::Json>) {
    on_json(value);
  }
}

// A document's file. Both check the schema; see read_json and write_json in files/json_file.h for what they throw.
template <Document T>
T read_document(const std::filesystem::path& file) {
  return value_from<T>(files::read_any_json(file), file.string());
}

template <Document T>
void write_document(const std::filesystem::path& file, const T& document) {
  files::write_json(file, json_of(document), T::kind);
}

}  // namespace ablations
