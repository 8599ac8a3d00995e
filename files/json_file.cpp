#include "files/json_file.h"

#include "files/printable.h"
#include "files/resources.h"
#include "files/schema_fault.h"
#include "files/what_is.h"

#include <fmt/format.h>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
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
        throw std::invalid_argument(
            fmt::format("{}: the key {} appears twice in one object", where, shown_value(parsed)));
      }
      if (parsed.is_number_unsigned() && parsed.get<uint64_t>() > INT64_MAX) {
        throw std::invalid_argument(
            fmt::format("{}: whole numbers must be below 2^63, got {}", where, shown_value(parsed)));
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
                                            document.is_object() ? shown_value(found_kind) : "absent", kind));
  }
  if (!document.contains("schema_version")) {
    throw std::invalid_argument(fmt::format("{}: \"schema_version\" is missing; this program reads version 1", where));
  }
  if (const Json& version = document.at("schema_version"); version != 1) {
    throw std::invalid_argument(
        fmt::format("{}: \"schema_version\" is {}; this program reads version 1", where, shown_value(version)));
  }
  const Schema& schema = schema_for(kind);
  if (valijson::Validator().validate(schema.parsed, valijson::adapters::NlohmannJsonAdapter(document), nullptr)) return;
  const std::string fault = schema_fault(document, schema.document);
  throw std::invalid_argument(fmt::format(
      "{}: {}", where, fault.empty() ? fmt::format("does not follow results/schemas/{}.v1.json", kind) : fault));
}

Json read_any_json(const fs::path& file) {
  refuse_other(file, json_file);
  return parse_json(files::read_file(file, largest_document), file.string());
}

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
