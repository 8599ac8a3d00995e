#include "files/json_file.h"

#include "files/printable.h"
#include "files/resources.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <vector>

namespace files {

namespace fs = std::filesystem;

namespace {

constexpr size_t largest_document = size_t{64} << 20;

// A value for a message of one line.
std::string shown(const Json& value) {
  return files::shortened(files::printable(value.is_structured() ? value.type_name() : value.dump()), 60);
}

struct Schema {
  Json document;
  valijson::Schema parsed;
};

const Schema& schema_for(std::string_view kind) {
  static std::map<std::string, std::unique_ptr<Schema>, std::less<>> schemas;
  auto& schema = schemas[std::string(kind)];
  if (!schema) {
    auto read = std::make_unique<Schema>();
    read->document = read_any_json(resource_root() / "results" / "schemas" / fmt::format("{}.v1.json", kind));
    valijson::SchemaParser().populateSchema(valijson::adapters::NlohmannJsonAdapter(read->document), read->parsed);
    schema = std::move(read);
  }
  return *schema;
}

// The schema of the field at that path; null if there is none.
Json schema_of_field(const Json& schema, const std::vector<std::string>& path) {
  const auto resolved = [&](const Json& node) {
    const std::string ref = node.is_object() ? node.value("$ref", "") : "";
    return ref.starts_with("#/") ? schema.at(Json::json_pointer(ref.substr(1))) : node;
  };
  Json node = schema;
  for (const std::string& key : path) {
    const Json properties = field_or_null(node, "properties");
    node = resolved(properties.contains(key) ? properties.at(key) : field_or_null(node, "items"));
  }
  return node;
}

// The validator's `description` of what is wrong with a `value`, in terms of fields instead of the validator's rules.
std::string in_words(const std::string& description, const Json& schema, const Json& value) {
  if (description.find("'additionalProperties'") != std::string::npos) {
    const Json properties = field_or_null(schema, "properties");
    for (const auto& [name, ignored] : value.items()) {
      if (properties.contains(name)) continue;
      std::vector<std::string> known;
      for (const auto& [field, unused] : properties.items()) known.push_back(field);
      return fmt::format("unknown field {}; the known fields are {}", shown(name), fmt::join(known, ", "));
    }
  }
  if (description.find("'type'") != std::string::npos && schema.contains("type")) {
    std::vector<std::string> types;
    for (const Json& type : schema.at("type").is_array() ? schema.at("type") : Json::array({schema.at("type")})) {
      types.push_back(type);
    }
    return fmt::format("must be of type {}, got {}", fmt::join(types, " or "), shown(value));
  }
  return description;
}

// The part of the document that a message needs. valijson notes every error with its place, and matches patterns with a
// std::regex, which recurses for each character: a large document would exhaust memory or the stack.
Json excerpt(const Json& value) {
  constexpr size_t longest_string = 4096, most_members = 1000;
  if (value.is_string()) return value.get_ref<const std::string&>().substr(0, longest_string);
  if (!value.is_structured()) return value;
  Json part = value.is_array() ? Json::array() : Json::object();
  for (const auto& [key, member] : value.items()) {
    if (part.size() == most_members) break;
    if (value.is_array()) {
      part.push_back(excerpt(member));
    } else {
      part[key] = excerpt(member);
    }
  }
  return part;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
  // The parser takes a NUL for the end, and would ignore what follows.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw std::invalid_argument(fmt::format("{}: not valid JSON: a NUL byte at position {}", where, nul));
  }
  try {
    // A repeated key would silently replace the first, so it is refused. The parser does not recurse, but code that
    // reads its result does, so nesting is limited. A number of 2^63 or more would become negative in an int64_t.
    std::vector<std::set<std::string>> keys;
    const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
      if (depth > 200) throw std::invalid_argument(fmt::format("{}: nested deeper than 200 levels", where));
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
      if (event == Json::parse_event_t::object_end) keys.pop_back();
      if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
        throw std::invalid_argument(fmt::format("{}: the key {} appears twice in one object", where, shown(parsed)));
      }
      if (parsed.is_number_unsigned() && parsed.get<uint64_t>() > INT64_MAX) {
        throw std::invalid_argument(fmt::format("{}: whole numbers must be below 2^63, got {}", where, shown(parsed)));
      }
      return true;
    };
    return Json::parse(text, check);
  } catch (const Json::exception& error) {
    std::string message = error.what();
    if (const auto end = message.find("] "); end != std::string::npos) message = message.substr(end + 2);
    for (char& c : message) {  // it quotes the text, which may hold anything
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
    }
    throw std::invalid_argument(
        fmt::format("{}: not valid JSON: {}", where, files::shortened(files::printable(message), 200)));
  }
}

void check_schema(const Json& document, std::string_view kind, const std::string& where) {
  const Json found_kind = kind_of(document);
  if (found_kind != kind) {
    throw std::invalid_argument(fmt::format("{}: not a {}: \"kind\" is {}, \"{}\" is expected", where, kind,
                                            document.is_object() ? shown(found_kind) : "absent", kind));
  }
  if (!document.contains("schema_version")) {
    throw std::invalid_argument(fmt::format("{}: \"schema_version\" is missing; this program reads version 1", where));
  }
  if (const Json& version = document.at("schema_version"); version != 1) {
    throw std::invalid_argument(
        fmt::format("{}: \"schema_version\" is {}; this program reads version 1", where, shown(version)));
  }
  const Schema& schema = schema_for(kind);
  if (valijson::Validator().validate(schema.parsed, valijson::adapters::NlohmannJsonAdapter(document), nullptr)) return;
  const Json part = excerpt(document);
  valijson::ValidationResults results;
  valijson::Validator().validate(schema.parsed, valijson::adapters::NlohmannJsonAdapter(part), &results);
  // The first error is the innermost: the field itself. There is none if the fault is outside the excerpt.
  valijson::ValidationResults::Error error;
  if (!results.popError(error)) {
    throw std::invalid_argument(fmt::format("{}: does not follow results/schemas/{}.v1.json", where, kind));
  }
  std::string place;
  std::vector<std::string> path;
  const Json* value = &part;
  for (const std::string& key : error.context) {  // "<root>", "[plan]", "[repeats]"
    if (key == "<root>") continue;
    place += key;
    path.push_back(key.substr(1, key.size() - 2));
    value = value->is_array() ? &value->at(std::stoul(path.back())) : &value->at(path.back());
  }
  throw std::invalid_argument(fmt::format(
      "{}: {}{}", where, place.empty() ? "" : "field " + files::shortened(files::printable(place), 200) + ": ",
      files::shortened(files::printable(in_words(error.description, schema_of_field(schema.document, path), *value)),
                       300)));
}

Json read_any_json(const fs::path& file) { return parse_json(files::read_file(file, largest_document), file.string()); }

Json kind_of(const Json& document) { return field_or_null(document, "kind"); }

Json read_json(const fs::path& file, std::string_view kind) {
  Json document = read_any_json(file);
  check_schema(document, kind, file.string());
  return document;
}

void write_json(const fs::path& file, const Json& document, std::string_view kind, Links links) {
  check_schema(document, kind, file.string());
  files::write_file(file, document.dump(1) + "\n", links);
}

std::string ascii_text(const Json& document) {
  return document.dump(1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

Json field_or_null(const Json& object, const char* field) {
  return object.is_object() ? object.value(field, Json()) : Json();
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

}  // namespace files
