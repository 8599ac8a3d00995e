// What a model needs to write text: a vocabulary and a prompt.
#pragma once

#include "model/tokenizer.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ablations {

// The vocabulary in `file`; empty: the one of `make data`. Throws std::invalid_argument where it is missing.
model::Tokenizer vocabulary_for_text(const std::filesystem::path& file);

// The tokens of `prompt`, given with `flag`. Throws std::invalid_argument, which names the flag, for a text that is not
// UTF-8 and for more tokens than the model has positions.
std::vector<uint16_t> encoded_prompt(const char* flag, const std::string& prompt, const model::Tokenizer& tokenizer,
                                     int64_t positions);

}  // namespace ablations
