#include "harness/json_file.h"

#include <cerrno>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "harness/resources.h"

namespace harness {

namespace fs = std::filesystem;

namespace {

constexpr size_t largest_document = size_t{64} << 20;

const valijson::Schema& schema_for(std::string_view kind) {
  static std::map<std::string, std::unique_ptr<valijson::Schema>, std::less<>> schemas;
  auto& schema = schemas[std::string(kind)];
  if (!schema) {
    const fs::path file = resource_root() / "results" / "schemas" / fmt::format("{}.v1.json", kind);
    const Json document = parse_json(read_file(file, largest_document), file.string());
    auto parsed = std::make_unique<valijson::Schema>();
    valijson::SchemaParser().populateSchema(valijson::adapters::NlohmannJsonAdapter(document), *parsed);
    schema = std::move(parsed);
  }
  return *schema;
}

[[noreturn]] void throw_errno(const fs::path& file, const char* doing) {
  throw std::system_error(errno, std::generic_category(), fmt::format("{}: {}", file.string(), doing));
}

}  // namespace

std::string read_file(const fs::path& file, size_t limit) {
  std::error_code error;
  const auto status = fs::status(file, error);
  if (!fs::exists(status)) throw std::invalid_argument(fmt::format("{}: no such file", file.string()));
  if (!fs::is_regular_file(status)) throw std::invalid_argument(fmt::format("{}: not a regular file", file.string()));
  const uintmax_t size = fs::file_size(file, error);
  if (error) throw std::invalid_argument(fmt::format("{}: {}", file.string(), error.message()));
  if (size > limit) {
    throw std::invalid_argument(fmt::format("{}: {} bytes; at most {} are read", file.string(), size, limit));
  }
  std::string content(size, '\0');
  std::ifstream stream(file, std::ios::binary);
  if (!stream.read(content.data(), static_cast<std::streamsize>(size))) {
    throw std::invalid_argument(fmt::format("{}: cannot be read", file.string()));
  }
  return content;
}

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
  throw std::invalid_argument(fmt::format("{}: field {}: {}", where, path.empty() ? "<root>" : path, error.description));
}

Json read_json(const fs::path& file, std::string_view kind) {
  const Json document = parse_json(read_file(file, largest_document), file.string());
  check_schema(document, kind, file.string());
  return document;
}

void write_file(const fs::path& file, std::string_view content) {
  const fs::path temporary = file.string() + fmt::format(".{}.tmp", ::getpid());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) throw_errno(file, "cannot be written");
  const auto fail = [&](const char* doing) {
    const int saved = errno;
    ::close(fd);
    ::unlink(temporary.c_str());
    errno = saved;
    throw_errno(file, doing);
  };
  for (size_t done = 0; done < content.size();) {
    const ssize_t written = ::write(fd, content.data() + done, content.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written");
    done += static_cast<size_t>(written);
  }
  if (::fsync(fd) != 0) fail("cannot be flushed to disk");
  ::close(fd);
  if (::rename(temporary.c_str(), file.c_str()) != 0) {
    const int saved = errno;
    ::unlink(temporary.c_str());
    errno = saved;
    throw_errno(file, "cannot be replaced");
  }
}

void write_json(const fs::path& file, const Json& document, std::string_view kind) {
  check_schema(document, kind, file.string());
  write_file(file, document.dump(1) + "\n");
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

}  // namespace harness
