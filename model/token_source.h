// Where the tokens of a batch come from. Each of the recipe's `batches` that goes sequence by sequence has a class. All
// of them give the same tokens.
#pragma once

#include "files/files.h"
#include "model/data.h"
#include "model/recipe.h"
#include "model/text_file.h"
#include "model/tokenizer.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace model {

class TokenSource {
 public:
  TokenSource() = default;
  virtual ~TokenSource() = default;
  TokenSource(const TokenSource&) = delete;  // files and mappings
  TokenSource& operator=(const TokenSource&) = delete;

  // Tokens [position, position + count) of the stream; they stay until the next call.
  virtual std::span<const uint16_t> at(size_t position, size_t count) = 0;

  [[nodiscard]] const BatchWork& work() const { return work_; }

 protected:
  BatchWork work_;
};

// For tokenized, read, mapped and preloaded. The stream must outlive it. Throws std::invalid_argument where the stream
// lacks what they need: a text with its vocabulary, a token file, or tokens in memory.
std::unique_ptr<TokenSource> source_of(Batches batches, const TokenStream& stream);

// Tokens of a text that are made when they are asked for. Going on from where the last ones ended is quick; another
// place costs up to `places_apart` tokens.
class TokenizedText : public TokenSource {
 public:
  static constexpr size_t places_apart = 65536;

  // Throws std::invalid_argument if the tokens in the file are not those of the text.
  TokenizedText(const std::filesystem::path& text, const std::filesystem::path& vocabulary,
                const std::filesystem::path& token_file);

  std::span<const uint16_t> at(size_t position, size_t count) override;

 private:
  void go_to(size_t position);
  void tokenize(size_t tokens);  // at least so many more, or all that are left

  TextFile text_;
  Tokenizer tokenizer_;
  std::vector<uint64_t> places_;  // the byte of the text at which every places_apart-th token begins
  std::vector<uint16_t> made_;    // from token first_ on
  size_t first_ = 0;
  uint64_t byte_ = 0;  // where the text that is not tokenized yet begins
};

// The byte of the text at which every TokenizedText::places_apart-th token begins. Throws std::invalid_argument if the
// tokens in the file, which load_tokens has read, are not those of the text.
std::vector<uint64_t> places_of_tokens(TextFile& text, const Tokenizer& tokenizer,
                                       const std::filesystem::path& token_file);

}  // namespace model
