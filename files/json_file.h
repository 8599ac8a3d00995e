// JSON documents (records, plans, studies, ladders): read with a size limit and a schema, written whole or not at all.
#pragma once

#include "files/files.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <string_view>

namespace files {

using Json = nlohmann::json;

// Throws std::invalid_argument: "FILE: what is wrong", with line and column for syntax, the path within the document
// for a schema violation. `kind` names the schema, results/schemas/KIND.v1.json; files over 64 MiB are refused unread.
Json read_json(const std::filesystem::path& file, std::string_view kind);

// The same without a schema, for a document whose kind is not known yet.
Json read_any_json(const std::filesystem::path& file);
// Its "kind"; null if it has none.
Json kind_of(const Json& document);

// The same checks on a document that is already in memory; `where` begins the message.
Json parse_json(std::string_view text, const std::string& where);
void check_schema(const Json& document, std::string_view kind, const std::string& where);

// Checks the schema first. Throws std::invalid_argument for a document that does not follow it, std::system_error where
// the file cannot be written.
void write_json(const std::filesystem::path& file, const Json& document, std::string_view kind,
                Links links = Links::replaced);

// As indented ASCII text, which is harmless on a terminal; JSON's \u spells out all else.
std::string ascii_text(const Json& document);

// The field's value; null if there is none, or if `object` is not an object.
Json field_or_null(const Json& object, const char* field);

// A number, or null if it is not finite: JSON has no NaN.
Json finite_or_null(double value);

}  // namespace files
