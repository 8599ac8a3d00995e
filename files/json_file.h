// JSON documents (records, plans, studies, ladders): read with a size limit, written whole or not at all.
#pragma once

#include "files/files.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <string_view>

namespace files {

using Json = nlohmann::json;

// Throws std::invalid_argument: "FILE: what is wrong", with line and column; files over 64 MiB are refused unread.
Json read_any_json(const std::filesystem::path& file);
// The same of a text; `where` begins the message.
Json parse_json(std::string_view text, const std::string& where);

// Its "kind"; null if it has none.
Json kind_of(const Json& document);
// Whether the file can be read as a document of that kind.
bool is_of_kind(const std::filesystem::path& file, std::string_view kind);

// Throws std::system_error where the file cannot be written.
void write_json(const std::filesystem::path& file, const Json& document, Links links = Links::replaced);

// A value for a message of one line.
std::string shown_value(const Json& value);

// As indented ASCII text, which is harmless on a terminal; JSON's \u spells out all else.
std::string ascii_text(const Json& document);

// The field's value; null if there is none, or if `object` is not an object.
Json field_or_null(const Json& object, const char* field);

// A number, or null if it is not finite: JSON has no NaN.
Json finite_or_null(double value);

}  // namespace files
