// What strangers' bytes reach, one function for each kind of file: its reader, and what the program does with a file
// that the reader took. Shared by libFuzzer's programs (`make fuzz`) and by tests that need no clang.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fuzz {

// True: taken. False: refused, with std::invalid_argument and a message. Whatever else is thrown goes through, and is a
// finding.
using Target = bool (*)(std::string_view bytes);

// baseline, checkpoint, ladder, lr_sweep, noise, plan, record, report, study, to_loss, trace, training,
// training_report, training_step; safetensors, tokens, vocabulary, text; lines (taken: they have a loss).
const std::map<std::string, Target>& targets();

// For documents: field names and allowed words of the schemas. Empty for other targets.
const std::vector<std::string>& words_of(const std::string& target);

// What targets() gathers.
bool read_baseline(std::string_view bytes);
bool read_checkpoint(std::string_view bytes);
bool read_ladder(std::string_view bytes);
bool read_lr_sweep(std::string_view bytes);
bool read_noise(std::string_view bytes);
bool read_plan(std::string_view bytes);
bool read_record(std::string_view bytes);
bool read_report(std::string_view bytes);
bool read_study(std::string_view bytes);
bool read_to_loss(std::string_view bytes);
bool read_trace(std::string_view bytes);
bool read_training(std::string_view bytes);
bool read_training_report(std::string_view bytes);
bool read_training_step(std::string_view bytes);
bool read_safetensors(std::string_view bytes);
bool read_tokens(std::string_view bytes);
bool read_vocabulary(std::string_view bytes);
bool encode_text(std::string_view bytes);
bool read_lines(std::string_view bytes);

// 50256 ranks in tiktoken's format, and as many merges in OpenAI's: 256 bytes and 50000 pairs of them, made up.
std::string rank_file();
std::string merge_list();

}  // namespace fuzz
