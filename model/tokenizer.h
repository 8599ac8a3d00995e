// GPT-2's byte-level BPE: text to token ids and back, with the same ids as OpenAI's encoder and tiktoken.
// The vocabulary is kept as ranks, not as a list of merge pairs. Two neighbours merge if their joined bytes are a
// token, at that token's rank (tiktoken's rule). For GPT-2's vocabulary this gives the same tokens as the merge list,
// and both published file formats fit into one table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

struct pcre2_real_code_8;  // pcre2_code of <pcre2.h>, which only tokenizer.cpp needs

namespace model {

// What "<|endoftext|>" in a text becomes: tokens of its letters, or end_of_text, as between documents.
enum class Marks { text, end_of_text };

// How often the mark stands in `utf8`.
int64_t marks_in(std::string_view utf8);

class Tokenizer {
 public:
  static constexpr uint16_t end_of_text = 50256;
  static constexpr std::string_view end_of_text_mark = "<|endoftext|>";

  // Reads OpenAI's `vocab.bpe` (first line "#version...", then one merge a line) or tiktoken's `gpt2.tiktoken` (lines
  // "base64-of-token rank"), told apart by the first line. The file must hold exactly the 50256 ranks 0..50255, each
  // with its own bytes, and every single byte among them. Throws std::invalid_argument with file and line otherwise,
  // and for a default vocabulary that is not as published (files/resources.h).
  static Tokenizer load(const std::filesystem::path& vocabulary);

  // Copying would leave the keys of ranks_ pointing into the other object's tokens_; moving keeps them valid.
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  Tokenizer(Tokenizer&&) noexcept = default;
  Tokenizer& operator=(Tokenizer&&) noexcept = default;
  ~Tokenizer() = default;

  // Token ids of `utf8`. O(n log n) for any text. Throws std::invalid_argument with the byte offset where `utf8` is not
  // valid UTF-8. `begin` is the offset of its first byte.
  [[nodiscard]] std::vector<uint16_t> encode(std::string_view utf8, uint64_t begin = 0,
                                             Marks marks = Marks::text) const;

  // The bytes of `tokens`; end_of_text becomes "<|endoftext|>". The result need not be UTF-8: one character may span
  // several tokens. Throws std::invalid_argument with the position of an id that is not below size().
  [[nodiscard]] std::string decode(std::span<const uint16_t> tokens) const;

  // 50257: the ranks and end_of_text.
  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(tokens_.size()); }

 private:
  // `tokens`: the bytes of ranks 0..50255, all different, without end_of_text.
  explicit Tokenizer(std::vector<std::string> tokens);

  [[nodiscard]] int32_t rank_of(std::string_view bytes) const;  // -1: not a token
  void merge(std::string_view piece, std::vector<uint16_t>& ids) const;
  void append(std::string_view utf8, uint64_t begin, std::vector<uint16_t>& ids) const;  // encode(), without marks

  std::vector<std::string> tokens_;                       // id -> bytes
  std::unordered_map<std::string_view, uint16_t> ranks_;  // bytes -> id, without end_of_text; keys lie in tokens_
  size_t longest_ = 0;                                    // bytes of the longest token
  std::shared_ptr<const pcre2_real_code_8> split_;        // cuts text into pieces that are encoded one by one
};

}  // namespace model
