// `ladder tokenize`: a text as a token file.
#include "cli/gpt2/tokenize.h"

#include "cli/gpt2/commands.h"
#include "cli/place.h"
#include "files/files.h"
#include "files/printable.h"
#include "files/resources.h"
#include "model/data.h"
#include "text/figures.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string>

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

void add_end_of_text_flag(Command& command, bool& end_of_text) {
  command.add_flag("--end-of-text", end_of_text,
                   "read <|endoftext|> in a text as token 50256, the end of a document (default: as ordinary text)");
}

namespace {

struct TokenizeFlags {
  std::string data, vocabulary, out;
  bool end_of_text = false;
};

int tokenize(const TokenizeFlags& flags) {
  check_can_write("--out", flags.out);
  const std::filesystem::path vocabulary =
      flags.vocabulary.empty() ? files::default_vocabulary() : std::filesystem::path(flags.vocabulary);
  check_not_read("--out", flags.out, {{"--data", flags.data}, {"--vocab", vocabulary}});
  const model::Marks marks = marks_of(flags.end_of_text);
  const auto stream =
      model::tokens_of_text(flags.data, vocabulary, files::cache_folder() / "tokens", model::Keep::in_memory, marks);
  model::write_tokens(flags.out, stream.tokens);
  say_note(note_of_marks(flags.data, model::marks_in_file(flags.data), marks));
  const auto text = static_cast<double>(std::filesystem::file_size(flags.data));
  const auto tokens = static_cast<double>(stream.tokens.size() * sizeof(uint16_t));
  fmt::print(files::is_standard_output(flags.out) ? stderr : stdout, "{}: {} token{} in {}, from {} of text{}\n",
             files::printable(flags.out), stream.tokens.size(), stream.tokens.size() == 1 ? "" : "s",
             number_of(static_cast<int64_t>(tokens), "byte"), number_of(static_cast<int64_t>(text), "byte"),
             text > 0 ? fmt::format(" ({:.2f} of its size)", tokens / text) : "");
  return 0;
}

}  // namespace

void add_tokenize(CommandLine& line) {
  Command& command = line.add(
      {.name = "tokenize",
       .about = "Writes the GPT-2 tokens of a UTF-8 text in llm.c's format. --data of every command reads such a "
                "file, also on a machine that has no vocabulary.",
       .examples = {{"ladder tokenize --data book.txt --out book.bin", "Then: ladder ablate --data book.bin"},
                    {"ladder tokenize --data stories.txt --end-of-text --out stories.bin",
                     "A text of many documents, with <|endoftext|> between them."}}});
  auto& flags = command.runs<TokenizeFlags>(tokenize);
  command.heading("What to read and write");
  add_text(command, "--data", flags.data, "UTF-8 text", "FILE")->required();
  add_text(command, "--vocab", flags.vocabulary, "vocab.bpe or gpt2.tiktoken (default: the one of `make data`)",
           "FILE");
  add_end_of_text_flag(command, flags.end_of_text);
  add_text(command, "--out", flags.out, "token file (llm.c's format); -: standard output", "FILE")->required();
}

}  // namespace cli
