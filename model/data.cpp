// A cached token file is used only if decoding it gives the text back. That costs milliseconds and makes checksums and
// locks unnecessary.
#include "model/data.h"

#include "files/files.h"
#include "files/sha256.h"
#include "model/tokenizer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <stdexcept>

namespace model {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are read and written in the machine's order");

constexpr int32_t kMagic = 20240520;
constexpr int32_t kVersion = 1;
using Header = std::array<int32_t, 256>;

std::string sha256_of(const std::vector<uint16_t>& tokens) {
  return files::sha256_hex({reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(uint16_t)});
}

// Vigna's generator, https://prng.di.unimi.it/splitmix64.c, first number for this seed.
uint64_t splitmix64(uint64_t seed) {
  uint64_t z = seed + 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

}  // namespace

TokenStream load_tokens(const std::filesystem::path& path, int64_t vocabulary) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(fmt::format("{}: {}", path.string(), why));
  };
  if (vocabulary < 1 || vocabulary > 65536)
    refuse(fmt::format("the vocabulary must be between 1 and 65536, got {}", vocabulary));
  files::InputFile file(path);
  Header header{};
  if (file.size() < sizeof(header)) {
    refuse(fmt::format("a token file begins with a header of {} bytes, got {} bytes", sizeof(header), file.size()));
  }
  file.read(header.data(), sizeof(header));
  const auto [magic, version, count] = std::array<int32_t, 3>{header[0], header[1], header[2]};
  if (magic != kMagic) refuse(fmt::format("the magic number must be {}, got {}", kMagic, magic));
  if (version != kVersion) refuse(fmt::format("the version must be {}, got {}", kVersion, version));
  const uint64_t stored = file.size() - sizeof(header);
  if (count < 0 || static_cast<uint64_t>(count) * sizeof(uint16_t) != stored) {
    refuse(fmt::format("the header promises {} tokens of 2 bytes, but {} bytes follow it", count, stored));
  }
  TokenStream stream{std::vector<uint16_t>(static_cast<size_t>(count)), path.string(), "", path};
  file.read(stream.tokens.data(), stored);
  const auto bad = std::ranges::find_if(stream.tokens, [&](uint16_t token) { return token >= vocabulary; });
  if (bad != stream.tokens.end()) {
    refuse(fmt::format("tokens must be between 0 and {}, got {} at position {}", vocabulary - 1, *bad,
                       bad - stream.tokens.begin()));
  }
  stream.sha256 = sha256_of(stream.tokens);
  return stream;
}

void write_tokens(const std::filesystem::path& path, std::span<const uint16_t> tokens) {
  constexpr int32_t most = std::numeric_limits<int32_t>::max();
  if (tokens.size() > static_cast<size_t>(most)) {
    throw std::invalid_argument(
        fmt::format("{}: a token file holds at most {} tokens, got {}", path.string(), most, tokens.size()));
  }
  const Header header = {kMagic, kVersion, static_cast<int32_t>(tokens.size())};
  files::AtomicFile file(path, files::Links::followed);
  file.write(header.data(), sizeof(header));
  file.write(tokens.data(), tokens.size_bytes());
  file.commit();
}

TokenStream tokens_of_text(const std::filesystem::path& text_path, const std::filesystem::path& vocabulary_path,
                           const std::filesystem::path& cache_folder) {
  const std::string text = files::read_file(text_path);
  files::Sha256 key;
  key.update(text);
  key.update(files::read_file(vocabulary_path));
  const std::filesystem::path cache = cache_folder / (key.hex().substr(0, 16) + ".bin");
  const Tokenizer tokenizer = Tokenizer::load(vocabulary_path);
  try {
    TokenStream cached = load_tokens(cache, tokenizer.size());
    cached.source = text_path.string();
    if (tokenizer.decode(cached.tokens) == text) return cached;
  } catch (const std::invalid_argument&) {
    // missing or damaged: written below
  }
  TokenStream stream{{}, text_path.string(), "", cache};
  try {
    stream.tokens = tokenizer.encode(text);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{}: {}", text_path.string(), error.what()));
  }
  stream.sha256 = sha256_of(stream.tokens);
  std::filesystem::create_directories(cache_folder);
  write_tokens(cache, stream.tokens);
  return stream;
}

TokenStream tokens_of(const std::filesystem::path& path, const std::filesystem::path& vocabulary_path,
                      const std::filesystem::path& cache_folder, int64_t vocabulary) {
  if (path.extension() == ".bin") return load_tokens(path, vocabulary);
  return tokens_of_text(path, vocabulary_path, cache_folder);
}

BatchLoader::BatchLoader(const TokenStream& stream, int64_t B, int64_t T, uint64_t seed)
    : tokens_(stream.tokens), B_(B), T_(T), window_(0) {
  if (B < 1 || T < 1) {
    throw std::invalid_argument(fmt::format("batch and context must be at least 1, got {} x {}", B, T));
  }
  const bool overflows = __builtin_mul_overflow(static_cast<size_t>(B), static_cast<size_t>(T), &window_);
  if (overflows || tokens_.size() <= window_) {
    throw std::invalid_argument(
        fmt::format("{}: {} tokens; a batch of {} x {} needs {} x {} + 1", stream.source, tokens_.size(), B, T, B, T));
  }
  if (seed != 0) position_ = splitmix64(seed) % static_cast<size_t>(windows()) * window_;
}

void BatchLoader::skip(int64_t batches) {
  const auto count = static_cast<size_t>(windows());
  position_ = (position_ / window_ + static_cast<size_t>(batches)) % count * window_;
}

void BatchLoader::next(const at::Tensor& inputs, const at::Tensor& targets) {
  std::ranges::copy(tokens_.subspan(position_, window_), inputs.mutable_data_ptr<int64_t>());
  std::ranges::copy(tokens_.subspan(position_ + 1, window_), targets.mutable_data_ptr<int64_t>());
  position_ += window_;
  if (tokens_.size() - position_ < window_ + 1) position_ = 0;
}

std::pair<at::Tensor, at::Tensor> BatchLoader::next() {
  auto batch = std::pair(at::empty({B_, T_}, at::kLong), at::empty({B_, T_}, at::kLong));
  next(batch.first, batch.second);
  return batch;
}

}  // namespace model
