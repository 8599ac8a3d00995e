// What a text needs to become tokens: a vocabulary, and what "<|endoftext|>" means. Prompts.
#pragma once

#include "model/tokenizer.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ablations {

// The vocabulary in `file`; empty: the one of `make data`. Throws std::invalid_argument where it is missing.
model::Tokenizer vocabulary_for_text(const std::filesystem::path& file);

// What --end-of-text says.
model::Marks marks_of(bool end_of_text);

// What becomes of "<|endoftext|>" in the text of `where`, which has so many; empty: it has none.
std::string note_of_marks(const std::string& where, int64_t count, model::Marks marks);
// On standard error; an empty one is none.
void say_note(const std::string& note);

// The tokens of `prompt`, given with `flag`. Throws std::invalid_argument, which names the flag, for a text that is not
// UTF-8 and for more tokens than the model has positions.
std::vector<uint16_t> encoded_prompt(const char* flag, const std::string& prompt, const model::Tokenizer& tokenizer,
                                     int64_t positions, model::Marks marks);

}  // namespace ablations
