// Tokens and batches.
// A token file is llm.c's: 256 little-endian int32 (magic 20240520, version 1, token count, the rest ignored), then the
// tokens as uint16. Because the count is an int32, a file holds at most 2147483647 tokens.
#pragma once

#include "model/recipe.h"
#include "model/tokenizer.h"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace at {
class Tensor;
}

namespace model {

inline constexpr size_t token_file_header = 1024;  // bytes before the tokens

struct TokenStream {
  std::vector<uint16_t> tokens;                      // empty where they stay in the file
  std::string source;                                // the file they came from: token file or text
  std::string sha256;                                // of the tokens as little-endian uint16, 64 hexadecimal digits
  std::filesystem::path file = {};                   // a token file that holds them: the one given, or the cache's
  size_t in_file = 0;                                // how many tokens stay there
  std::filesystem::path text = {}, vocabulary = {};  // that they were made of; empty: not known

  [[nodiscard]] size_t size() const { return tokens.empty() ? in_file : tokens.size(); }
};

// Where the tokens of a file are after it has been read and checked.
enum class Keep { in_memory, in_file };

// Where they must be for the recipe's batches.
[[nodiscard]] constexpr Keep kept_for(Batches batches) {
  const bool from_file = batches == Batches::tokenized || batches == Batches::read || batches == Batches::mapped;
  return from_file ? Keep::in_file : Keep::in_memory;
}

// Reads a token file. Throws std::invalid_argument for another magic or version, a count that does not match the file's
// size, and a `vocabulary` outside 1..65536. It also refuses a token that is not below `vocabulary`, naming its
// position.
[[nodiscard]] TokenStream load_tokens(const std::filesystem::path& path, int64_t vocabulary,
                                      Keep keep = Keep::in_memory);

// Writes a token file atomically, or to standard output ("-"). Throws std::system_error if it cannot be written,
// std::invalid_argument for more tokens than the count can hold.
void write_tokens(const std::filesystem::path& path, std::span<const uint16_t> tokens);

// Tokens of a UTF-8 text under a vocabulary that Tokenizer::load reads. They are kept in `cache_folder` (created if
// need be) as <first 16 digits of the SHA-256 of text, vocabulary and marks>.bin. A cache file is used only if its
// tokens decode to the same text, so a damaged one is written again. If the cache cannot be written, tokens in memory
// have no file, and standard error says so. Tokens in a file throw std::system_error then. Throws std::invalid_argument
// for bad text or vocabulary.
[[nodiscard]] TokenStream tokens_of_text(const std::filesystem::path& text_path,
                                         const std::filesystem::path& vocabulary_path,
                                         const std::filesystem::path& cache_folder, Keep keep = Keep::in_memory,
                                         Marks marks = Marks::text);

// How often "<|endoftext|>" stands in a text. Throws std::invalid_argument if it cannot be read.
[[nodiscard]] int64_t marks_in_file(const std::filesystem::path& text_path);

// Tokens of either kind of file: a token file (files/what_is.h; the vocabulary file is not needed) or a text.
// Throws as the two above.
[[nodiscard]] TokenStream tokens_of(const std::filesystem::path& path, const std::filesystem::path& vocabulary_path,
                                    const std::filesystem::path& cache_folder, int64_t vocabulary,
                                    Keep keep = Keep::in_memory, Marks marks = Marks::text);

// A text of whole copies of `text_path`'s, as many as it takes for at least `bytes`. It is kept in `cache_folder`
// (created if need be). Its name says of which text, and how often. Throws std::invalid_argument for a text that is
// empty or cannot be read, std::system_error if the copies cannot be written.
[[nodiscard]] std::filesystem::path repeated_text(const std::filesystem::path& text_path, uint64_t bytes,
                                                  const std::filesystem::path& cache_folder);

// What was done for batches, counted where it was done.
struct BatchWork {
  int64_t copies = 0;                 // passes that copied tokens: of a sequence, or of all inputs or targets
  int64_t tokenized = 0;              // tokens that were made of text
  int64_t reads = 0, bytes_read = 0;  // of a file, by calls
};

class TokenSource;

// One of several ranks that share each batch. Rank r of n takes the sequences r B to (r + 1) B, of n B.
struct Share {
  int64_t rank = 0, ranks = 1;
};

// Where a batch's sequences begin. `consecutive`: they follow one another, as do the batches. `random`: anywhere.
enum class Windows : bool { consecutive = false, random = true };

// Consecutive windows of B*T tokens and, one token further on, their targets (as the loader of Karpathy's
// build-nanogpt, train_gpt2.py). Goes back to the first token when fewer than B*T + 1 are left. So up to B*T tokens at
// the end of the stream are never trained on. Ranks that share batches have windows of the B*T tokens of all, and each
// gets its part. Together they get what one rank with so large a B would get.
// Or random ones: each sequence of T tokens begins at any token (as get_batch of nanoGPT's train.py). Sequence n of a
// training begins at the n-th number of splitmix64(seed), modulo the places that have T + 1 tokens. So it
// follows from n alone, for any number of ranks and after any resumption.
class BatchLoader {
 public:
  // Consecutive windows start at token 0 for seed 0, else at window splitmix64(seed) % number of windows. `stream` must
  // outlive the loader. `batches` is how they are made; it does not change what is in them. A thread that makes them is
  // up to the caller. Throws std::invalid_argument if B or T is below 1, or the stream has fewer than B*T + 1 tokens.
  // It also refuses a stream without what `batches` needs (token_source.h).
  BatchLoader(const TokenStream& stream, int64_t B, int64_t T, uint64_t seed, Batches batches = Batches::gather,
              const Share& share = {}, Windows windows = Windows::consecutive);
  BatchLoader(TokenStream&&, int64_t, int64_t, uint64_t, Batches = Batches::gather, const Share& = {},
              Windows = Windows::consecutive) = delete;  // would dangle
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;  // may own a file
  BatchLoader& operator=(const BatchLoader&) = delete;

  // Fills inputs and targets, (B, T) int64 on the CPU, contiguous. Throws std::invalid_argument if the tokens' file
  // cannot be read.
  void next(const at::Tensor& inputs, const at::Tensor& targets);
  // The same in newly allocated tensors.
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> next();

  // How many windows of B*T tokens there are: next() gives them all, in turn, if they are consecutive.
  [[nodiscard]] int64_t windows() const { return static_cast<int64_t>((size_ - 1) / window_); }
  // As if next() had been called `batches` times more.
  void skip(int64_t batches) { made_ += static_cast<size_t>(batches); }
  // The token at which the first sequence of the next batch begins, of all ranks.
  [[nodiscard]] int64_t position() const { return static_cast<int64_t>(begin_of(0)); }
  // What was done so far.
  [[nodiscard]] BatchWork work() const;
  // The thread that made the last batch, as gettid() names it.
  [[nodiscard]] pid_t made_by() const { return made_by_; }

 private:
  [[nodiscard]] size_t begin_of(size_t sequence) const;  // of the next batch, of all ranks
  void gather(const at::Tensor& inputs, const at::Tensor& targets);
  void stack(const at::Tensor& inputs, const at::Tensor& targets);

  std::span<const uint16_t> tokens_;
  std::unique_ptr<TokenSource> source_;  // of batches that are made sequence by sequence
  int64_t B_;
  int64_t T_;
  uint64_t seed_;
  Windows kind_;
  size_t size_;        // tokens
  size_t window_ = 0;  // B*T of all ranks
  size_t first_ = 0;   // of a batch's sequences the first of this rank
  size_t made_ = 0;    // batches
  int64_t copies_ = 0;
  pid_t made_by_ = 0;
};

}  // namespace model
