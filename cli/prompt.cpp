#include "cli/prompt.h"

#include "files/printable.h"
#include "files/resources.h"
#include "text/figures.h"

#include <fmt/format.h>

#include <cstdio>
#include <iterator>
#include <stdexcept>

namespace cli {

model::Tokenizer vocabulary_for_text(const std::filesystem::path& file) {
  const std::filesystem::path usual = files::default_vocabulary();
  if (!file.empty() && file != usual) return model::Tokenizer::load(file);
  if (std::filesystem::exists(usual)) return model::Tokenizer::load(usual);
  throw std::invalid_argument(fmt::format(
      "the vocabulary is missing ({}): `make data` fetches it, or name yours with --vocab", usual.string()));
}

model::Marks marks_of(bool end_of_text) { return end_of_text ? model::Marks::end_of_text : model::Marks::text; }

std::string note_of_marks(const std::string& where, int64_t count, model::Marks marks) {
  if (count == 0) return "";
  const bool is_text = marks == model::Marks::text;
  return fmt::format("{} has {} {}, read as {}", where, model::Tokenizer::end_of_text_mark, number_of(count, "time"),
                     is_text ? "ordinary text; --end-of-text makes each token 50256, the end of a document"
                             : "token 50256, the end of a document");
}

void say_note(const std::string& note) {
  if (!note.empty()) fmt::print(stderr, "note: {}\n", files::printable(note));
}

std::vector<uint16_t> encoded_prompt(const char* flag, const std::string& prompt, const model::Tokenizer& tokenizer,
                                     int64_t positions, model::Marks marks) {
  say_note(note_of_marks(flag, model::marks_in(prompt), marks));
  std::vector<uint16_t> tokens;
  try {
    tokens = tokenizer.encode(prompt, 0, marks);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{}: {}", flag, error.what()));
  }
  if (std::ssize(tokens) > positions) {
    throw std::invalid_argument(fmt::format("{} must have at most {} tokens, the positions of the model, got {}", flag,
                                            positions, tokens.size()));
  }
  return tokens;
}

}  // namespace cli
