// JSON documents as structs. A struct lists its fields once, by their names in JSON. Reading, writing and everything
// else that goes through all fields uses that list:
//   struct Session {
//     std::string started;
//     std::optional<double> ms;        // null where there is none
//     std::optional<int64_t> retries;  // an older document does not have the field
//
//     static void fields(auto&& field) {
//       field("started", &Session::started);
//       field("ms", &Session::ms);
//       field("retries", &Session::retries, None::absent);
//     }
//   };
// A field is a text, a number, a bool, an enum of enums.h, JSON as it is, such a struct, a type with a Form, or a
// std::optional, std::vector or std::map (by text) of these. A struct that is a whole document names its schema, too:
// `static constexpr auto kind = "gate"`. What a schema cannot say is checked by its `void check(const std::string&
// where) const`, where it has one. A member `files::Json others = files::Json::object()` keeps the fields that the
// struct does not list, as another version of the program may write them: they are written again.
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

// What JSON has where an optional field has no value, null or nothing. Of a field that is no std::optional:
// `defaulted`: where it is not there, its member keeps its default. `default_absent`, `default_null`: where it has that
// default, JSON has nothing, or null.
enum class None { null, absent, defaulted, default_absent, default_null };

// How a type that is defined elsewhere stands in JSON: `static files::Json of(const T&)` and `static T from(const
// files::Json&, const std::string& where)`, which throws as value_from.
template <class T>
struct Form;

namespace fields_detail {

struct Visitor {
  void operator()(const char* /*name*/, auto /*member*/, None /*none*/ = None::null) const {}
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
    T::fields([&](const char* name, auto member, [[maybe_unused]] None none = None::null) {
      const auto& field = value.*member;
      if constexpr (fields_detail::is_optional<std::remove_cvref_t<decltype(field)>>) {
        if (none == None::absent && !field) return;
      }
      Json json = json_of(field);
      if ((none == None::default_absent || none == None::default_null) && json == json_of(T{}.*member)) {
        if (none == None::default_null) object[name] = nullptr;
        return;
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
    T::fields([&](const char* name, auto member, [[maybe_unused]] None none = None::null) {
      auto& field = value.*member;
      using Field = std::remove_cvref_t<decltype(field)>;
      if constexpr (KeepsOthers<T>) listed.insert(name);
      const auto found = json.find(name);
      if (found != json.end()) {
        if constexpr (fields_detail::is_optional<Field>) {
          // If an absent field means none, null is a value of its own.
          if (none == None::absent) {
            field = value_from<typename Field::value_type>(*found, place(name));
            return;
          }
        }
        if (none == None::default_null && found->is_null()) return;
        field = value_from<Field>(*found, place(name));
      } else if (!fields_detail::is_optional<Field> && none != None::defaulted && none != None::default_absent) {
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
    T::fields([&](const char* /*name*/, auto member, None /*none*/ = None::null) {
      each_text(value.*member, on_text, on_json);
    });
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
