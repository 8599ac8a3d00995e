#include "harness/json_file.h"

#include "files/files.h"
#include "harness/resources.h"

#include <fmt/format.h>
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

namespace harness {

namespace fs = std::filesystem;

namespace {

constexpr size_t largest_document = size_t{64} << 20;

const valijson::Schema& schema_for(std::string_view kind) {
  static std::map<std::string, std::unique_ptr<valijson::Schema>, std::less<>> schemas;
  auto& schema = schemas[std::string(kind)];
  if (!schema) {
    const fs::path file = resource_root() / "results" / "schemas" / fmt::format("{}.v1.json", kind);
    const Json document = parse_json(files::read_file(file, largest_document), file.string());
    auto parsed = std::make_unique<valijson::Schema>();
    valijson::SchemaParser().populateSchema(valijson::adapters::NlohmannJsonAdapter(document), *parsed);
    schema = std::move(parsed);
  }
  return *schema;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
  try {
    // A duplicate key would silently win over the first: refused.
    std::vector<std::set<std::string>> keys;
    const auto refuse_duplicates = [&](int, Json::parse_event_t event, Json& parsed) {
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
      if (event == Json::parse_event_t::object_end) keys.pop_back();
      if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
        throw std::invalid_argument(fmt::format("{}: the key {} stands twice in one object", where, parsed.dump()));
      }
      return true;
    };
    // The parser recurses nowhere, but what reads its result does: nesting is limited.
    size_t depth = 0;
    for (const char c : text) {
      if (c == '{' || c == '[') ++depth;
      if ((c == '}' || c == ']') && depth > 0) --depth;
      if (depth > 200) throw std::invalid_argument(fmt::format("{}: nested deeper than 200 levels", where));
    }
    return Json::parse(text, refuse_duplicates);
  } catch (const Json::exception& error) {
    std::string message = error.what();
    if (const auto end = message.find("] "); end != std::string::npos) message = message.substr(end + 2);
    for (char& c : message) {  // it quotes the text, whatever that is
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
    }
    throw std::invalid_argument(fmt::format("{}: not valid JSON: {}", where, message));
  }
}

void check_schema(const Json& document, std::string_view kind, const std::string& where) {
  const Json found_kind = document.is_object() ? document.value("kind", Json()) : Json();
  if (found_kind != kind) {
    throw std::invalid_argument(fmt::format("{}: not a {}: \"kind\" is {}, \"{}\" is expected", where, kind,
                                            document.is_object() ? found_kind.dump() : "absent", kind));
  }
  if (const Json version = document.value("schema_version", Json()); version != 1) {
    throw std::invalid_argument(
        fmt::format("{}: \"schema_version\" is {}; this program reads version 1", where, version.dump()));
  }
  valijson::ValidationResults results;
  const valijson::adapters::NlohmannJsonAdapter target(document);
  if (valijson::Validator().validate(schema_for(kind), target, &results)) return;
  // The first error is the innermost: the field itself.
  valijson::ValidationResults::Error error;
  results.popError(error);
  std::string path;
  for (const std::string& part : error.context) path += part == "<root>" ? "" : part;
  throw std::invalid_argument(
      fmt::format("{}: field {}: {}", where, path.empty() ? "<root>" : path, error.description));
}

Json read_json(const fs::path& file, std::string_view kind) {
  const Json document = parse_json(files::read_file(file, largest_document), file.string());
  check_schema(document, kind, file.string());
  return document;
}

void write_json(const fs::path& file, const Json& document, std::string_view kind) {
  check_schema(document, kind, file.string());
  files::write_file(file, document.dump(1) + "\n");
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

}  // namespace harness
