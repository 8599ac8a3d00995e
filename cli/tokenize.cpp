// `ladder tokenize`: a text as a token file.
#include "cli/command.h"
#include "cli/place.h"
#include "cli/prompt.h"
#include "files/files.h"
#include "files/printable.h"
#include "files/resources.h"
#include "model/data.h"
#include "text/figures.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

namespace cli {
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
      {.group = "Train",
       .name = "tokenize",
       .summary = "turn a text into a token file",
       .about = "Writes the GPT-2 tokens of a UTF-8 text in llm.c's format. --data of every command reads such a "
                "file, also on a machine that has no vocabulary.",
       .examples = {{"ladder tokenize --data book.txt --out book.bin", "Then: ladder ablate --data book.bin"},
                    {"ladder tokenize --data stories.txt --end-of-text --out stories.bin",
                     "A text of many documents, with <|endoftext|> between them."}},
       .stray = "--data"});
  TokenizeFlags& flags = command.runs(tokenize);
  command.heading("What to read and write");
  add_text(command, "--data", flags.data, "UTF-8 text", "FILE")->required();
  add_text(command, "--vocab", flags.vocabulary, "vocab.bpe or gpt2.tiktoken (default: the one of `make data`)",
           "FILE");
  add_end_of_text_flag(command, flags.end_of_text);
  add_text(command, "--out", flags.out, "token file (llm.c's format); -: standard output", "FILE")->required();
}

}  // namespace cli
