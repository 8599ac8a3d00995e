#include "files/json_file.h"

#include "files/printable.h"
#include "files/what_is.h"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <stdexcept>
#include <vector>

namespace files {

namespace fs = std::filesystem;

namespace {

constexpr size_t largest_document = size_t{64} << 20;

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
    throw std::invalid_argument(fmt::format("{}: not valid JSON: {}", where, shortened(printable(message), 200)));
  }
}

Json read_any_json(const fs::path& file) {
  refuse_other(file, json_file);
  return parse_json(files::read_file(file, largest_document), file.string());
}

Json kind_of(const Json& document) { return field_or_null(document, "kind"); }

bool is_of_kind(const fs::path& file, std::string_view kind) {
  try {
    return fs::is_regular_file(file) && kind_of(read_any_json(file)) == kind;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

void write_json(const fs::path& file, const Json& document, Links links) {
  files::write_file(file, document.dump(1) + "\n", links);
}

std::string shown_value(const Json& value) {
  return shortened(printable(value.is_structured() ? value.type_name() : value.dump()), 60);
}

std::string ascii_text(const Json& document) {
  return document.dump(1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

Json field_or_null(const Json& object, const char* field) {
  return object.is_object() ? object.value(field, Json()) : Json();
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

}  // namespace files
