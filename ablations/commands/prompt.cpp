#include "ablations/commands/prompt.h"

#include "files/resources.h"

#include <fmt/format.h>

#include <iterator>
#include <stdexcept>

namespace ablations {

model::Tokenizer vocabulary_for_text(const std::filesystem::path& file) {
  const std::filesystem::path usual = files::default_vocabulary();
  if (!file.empty() && file != usual) return model::Tokenizer::load(file);
  if (std::filesystem::exists(usual)) return model::Tokenizer::load(usual);
  throw std::invalid_argument(fmt::format(
      "the vocabulary is missing ({}): `make data` fetches it, or name yours with --vocab", usual.string()));
}

std::vector<uint16_t> encoded_prompt(const char* flag, const std::string& prompt, const model::Tokenizer& tokenizer,
                                     int64_t positions) {
  std::vector<uint16_t> tokens;
  try {
    tokens = tokenizer.encode(prompt);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{}: {}", flag, error.what()));
  }
  if (std::ssize(tokens) > positions) {
    throw std::invalid_argument(fmt::format("{} must have at most {} tokens, the positions of the model, got {}", flag,
                                            positions, tokens.size()));
  }
  return tokens;
}

}  // namespace ablations
