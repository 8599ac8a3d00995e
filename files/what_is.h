// Files that are something else than what they are given as: known by their first bytes, each with its remedy.
#pragma once

#include <filesystem>
#include <string_view>

namespace files {

// What a reader wants, as a message names it.
inline constexpr std::string_view safetensors_file = "a safetensors file", token_file = "a token file",
                                  text_file = "a UTF-8 text", vocabulary_file = "a vocabulary",
                                  json_file = "a JSON document";

// What such bytes begin, and how to make of it what can be read. Empty: a text, or nothing known.
struct Known {
  std::string_view name, remedy;
};
[[nodiscard]] Known what_is(std::string_view first_bytes);

// Whether a file begins as llm.c's token files do, or says so by its name (.bin).
[[nodiscard]] bool is_token_file(const std::filesystem::path& path);

// Throws std::invalid_argument, with the remedy, if the file is known to be something other than wanted. Throws it,
// too, if the file cannot be read.
void refuse_other(const std::filesystem::path& path, std::string_view wanted);

}  // namespace files
