// What a text needs to become tokens: a vocabulary, and what "<|endoftext|>" means. Prompts.
#pragma once

#include "cli/command.h"
#include "model/tokenizer.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cli {

// The vocabulary in `file`; empty: the one of `make data`. Throws std::invalid_argument where it is missing.
model::Tokenizer vocabulary_for_text(const std::filesystem::path& file);

void add_end_of_text_flag(Command& command, bool& end_of_text);
// The meaning of the flag.
model::Marks marks_of(bool end_of_text);

// A note of how "<|endoftext|>" is read in the text of `where`, which has `count`. Empty if it has none.
std::string note_of_marks(const std::string& where, int64_t count, model::Marks marks);
// Prints the note on standard error, unless it is empty.
void say_note(const std::string& note);

// The tokens of `prompt`, given with `flag`. Throws std::invalid_argument with the flag if the text is not UTF-8 or has
// more tokens than positions.
std::vector<uint16_t> encoded_prompt(const char* flag, const std::string& prompt, const model::Tokenizer& tokenizer,
                                     int64_t positions, model::Marks marks);

}  // namespace cli
