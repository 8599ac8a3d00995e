// What strangers' bytes reach, one function for each kind of file: its reader, and what the program does with a file
// that the reader took. Shared by libFuzzer's programs (`make fuzz`) and by tests that need no clang.
#pragma once

#include <string>
#include <string_view>

namespace fuzz {

// True: taken. False: refused, with std::invalid_argument and a message. Whatever else is thrown goes through, and is a
// finding.
using Target = bool (*)(std::string_view bytes);

bool read_document(std::string_view bytes);  // JSON, of every kind
bool read_safetensors(std::string_view bytes);
bool read_tokens(std::string_view bytes);
bool read_vocabulary(std::string_view bytes);
bool encode_text(std::string_view bytes);
bool read_lines(std::string_view bytes);  // what a program prints; taken: it has a loss

// The target that reads a folder of seeds: seeds/plan holds documents.
Target target_of(const std::string& seeds);

// 50256 ranks in tiktoken's format, and as many merges in OpenAI's: 256 bytes and 50000 pairs of them, made up.
std::string rank_file();
std::string merge_list();

}  // namespace fuzz
