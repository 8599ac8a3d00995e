// Tokens and batches.
// A token file is llm.c's: 256 little-endian int32 (magic 20240520, version 1, token count, the rest ignored), then the
// tokens as uint16. Because the count is an int32, a file holds at most 2147483647 tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace at {
class Tensor;
}

namespace model {

struct TokenStream {
  std::vector<uint16_t> tokens;
  std::string source;               // the file they came from: token file or text
  std::string sha256;               // of the tokens as little-endian uint16, 64 hexadecimal digits
  std::filesystem::path file = {};  // a token file that holds them: the one given, or the cache's
};

// Reads a token file. Throws std::invalid_argument for another magic or version, a count that does not match the file's
// size, a token that is not below `vocabulary` (naming its position), and a `vocabulary` outside 1..65536.
[[nodiscard]] TokenStream load_tokens(const std::filesystem::path& path, int64_t vocabulary);

// Writes a token file atomically. Throws std::system_error if it cannot be written, std::invalid_argument for more
// tokens than the count can hold.
void write_tokens(const std::filesystem::path& path, std::span<const uint16_t> tokens);

// Tokens of a UTF-8 text under a vocabulary that Tokenizer::load reads. Kept in `cache_folder` (created if need be) as
// <first 16 digits of the SHA-256 of text and vocabulary>.bin. A cache file is used only if its tokens decode to the
// same text, so a damaged one is written again. Throws std::invalid_argument for bad text or vocabulary,
// std::system_error if the cache cannot be written.
[[nodiscard]] TokenStream tokens_of_text(const std::filesystem::path& text_path,
                                         const std::filesystem::path& vocabulary_path,
                                         const std::filesystem::path& cache_folder);

// Tokens of either kind of file: a token file (its name ends in .bin; the vocabulary file is not needed) or a text.
// Throws as the two above.
[[nodiscard]] TokenStream tokens_of(const std::filesystem::path& path, const std::filesystem::path& vocabulary_path,
                                    const std::filesystem::path& cache_folder, int64_t vocabulary);

// Consecutive windows of B*T tokens and, one token further on, their targets (as the loader of Karpathy's
// build-nanogpt, train_gpt2.py). Goes back to the first token when fewer than B*T + 1 are left, so up to B*T tokens at
// the end of the stream are never trained on.
class BatchLoader {
 public:
  // Starts at token 0 for seed 0, else at window splitmix64(seed) % number of windows. `stream` must outlive the
  // loader. Throws std::invalid_argument if B or T is below 1 or the stream has fewer than B*T + 1 tokens.
  BatchLoader(const TokenStream& stream, int64_t B, int64_t T, uint64_t seed);
  BatchLoader(TokenStream&&, int64_t, int64_t, uint64_t) = delete;  // would dangle

  // Fills inputs and targets, (B, T) int64 on the CPU, contiguous.
  void next(const at::Tensor& inputs, const at::Tensor& targets);
  // The same in newly allocated tensors.
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> next();

  // How many windows there are: next() gives them all, in turn.
  [[nodiscard]] int64_t windows() const { return static_cast<int64_t>((tokens_.size() - 1) / window_); }
  // As if next() had been called so many times more.
  void skip(int64_t batches);
  // The token at which the next window begins.
  [[nodiscard]] int64_t position() const { return static_cast<int64_t>(position_); }

 private:
  std::span<const uint16_t> tokens_;
  int64_t B_;
  int64_t T_;
  size_t window_;  // B*T
  size_t position_ = 0;
};

}  // namespace model
