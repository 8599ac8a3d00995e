// JSON schemas of structs that list their fields (fields.h): results/schemas is made of them, for those who read
// documents with other programs.
#pragma once

#include "results/fields.h"

#include <string>

namespace results {

// The schema of one value; structs are added to `definitions`, by their names.
template <class T>
files::Json schema_of(files::Json& definitions, const Rules& rules = {});

namespace fields_detail {

// A schema of which null is a value, too.
inline files::Json or_null(files::Json schema) {
  if (schema.contains("enum")) {
    schema["enum"].push_back(nullptr);
  } else if (schema.contains("type")) {
    schema["type"] = {schema["type"], "null"};
  } else {
    schema = {{"anyOf", {schema, {{"type", "null"}}}}};
  }
  return schema;
}

inline void add_limit(files::Json& schema, const char* name, std::optional<double> limit) {
  if (!limit) return;
  constexpr double exact = 9007199254740992;  // 2^53
  schema[name] = std::trunc(*limit) == *limit && std::abs(*limit) < exact ? files::Json(static_cast<int64_t>(*limit))
                                                                          : files::Json(*limit);
}

// Of the fields of a T that List names.
template <class T, class List>
files::Json object_schema(files::Json& definitions) {
  files::Json properties = files::Json::object(), required = files::Json::array();
  if constexpr (Document<T>) {
    properties = {{"kind", {{"const", T::kind}}}, {"schema_version", {{"const", 1}}}};
    required = {"kind", "schema_version"};
  }
  List::fields([&]<class Class, class Field>(const char* name, Field Class::*, const Rules& rules) {
    properties[name] = schema_of<Field>(definitions, rules);
    if (rules.none == None::null_if_default) properties[name] = or_null(properties[name]);
    if (rules.none != None::absent) required.push_back(name);
  });
  return {{"type", "object"}, {"properties", properties}, {"required", required}, {"additionalProperties", false}};
}

template <class T>
files::Json whole_schema(files::Json& definitions) {
  if constexpr (HasShort<T>) {
    return {{"oneOf", {object_schema<T, typename T::Short>(definitions), object_schema<T, T>(definitions)}}};
  } else {
    return object_schema<T, T>(definitions);
  }
}

}  // namespace fields_detail

template <class T>
files::Json schema_of(files::Json& definitions, const Rules& rules) {
  using files::Json;
  using namespace fields_detail;
  Json schema;
  if constexpr (is_optional<T>) {
    // Where an absent field means none, null is none only of an optional in an optional.
    const Json of_value = schema_of<typename T::value_type>(definitions, rules);
    return rules.none == None::absent && !is_optional<typename T::value_type> ? of_value : or_null(of_value);
  } else if constexpr (is_vector<T> || is_map<T>) {
    Rules of_item = rules;
    of_item.none = None::null;
    if constexpr (is_vector<T>) {
      schema = {{"type", "array"}, {"items", schema_of<typename T::value_type>(definitions, of_item)}};
    } else {
      schema = {{"type", "object"}, {"additionalProperties", schema_of<typename T::mapped_type>(definitions, of_item)}};
    }
    if (rules.items > 0) schema[is_vector<T> ? "minItems" : "minProperties"] = rules.items;
    if (rules.most_items < SIZE_MAX) schema[is_vector<T> ? "maxItems" : "maxProperties"] = rules.most_items;
  } else if constexpr (Document<T>) {
    schema = {{"type", "object"}, {"description", fmt::format("as {}.v1.json says", T::kind)}};
  } else if constexpr (HasFields<T>) {
    schema = {{"$ref", fmt::format("#/definitions/{}", T::listed)}};
    if (!definitions.contains(T::listed)) {
      definitions[T::listed] = nullptr;
      definitions[T::listed] = whole_schema<T>(definitions);
    }
  } else if constexpr (Named<T>) {
    schema = {{"enum", Names<T>::list}};
  } else if constexpr (HasForm<T> || std::same_as<T, Json>) {
    schema = {{"type", "object"}};
  } else if constexpr (std::same_as<T, std::string>) {
    schema = {{"type", "string"}};
    add_limit(schema, "minLength", rules.least);
    add_limit(schema, "maxLength", rules.most);
    if (rules.pattern != nullptr) schema["pattern"] = rules.pattern;
  } else if constexpr (std::same_as<T, bool>) {
    schema = {{"type", "boolean"}};
  } else {
    schema = {{"type", std::integral<T> ? "integer" : "number"}};
    if constexpr (std::unsigned_integral<T>) schema["minimum"] = 0;
    add_limit(schema, "minimum", rules.least);
    add_limit(schema, "exclusiveMinimum", rules.above);
    add_limit(schema, "maximum", rules.most);
  }
  return schema;
}

// results/schemas/KIND.v1.json
template <Document T>
files::Json document_schema() {
  files::Json definitions = files::Json::object();
  files::Json schema = fields_detail::whole_schema<T>(definitions);
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  schema["title"] = T::about;
  if (!definitions.empty()) schema["definitions"] = definitions;
  return schema;
}

}  // namespace results
