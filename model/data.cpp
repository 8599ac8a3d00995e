// A cached token file is used only if decoding it gives the text back. That costs milliseconds for a megabyte and
// makes checksums and locks unnecessary. Files are read in blocks, because a text may be larger than the memory.
#include "model/data.h"

#include "files/files.h"
#include "files/printable.h"
#include "files/sha256.h"
#include "files/what_is.h"
#include "model/ranks.h"
#include "model/text_file.h"
#include "model/token_source.h"
#include "model/tokenizer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace model {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are read and written in the machine's order");

constexpr int32_t kMagic = 20240520;
constexpr int32_t kVersion = 1;
using Header = std::array<int32_t, token_file_header / sizeof(int32_t)>;

constexpr size_t block_bytes = size_t{1} << 20;
constexpr size_t block_tokens = size_t{1} << 15;  // little, so that what is not kept leaves no large gap in the heap

void hash_tokens(std::span<const uint16_t> tokens, files::Sha256& hash) {
  hash.update({reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()});
}

void tokenize(TextFile& text, const Tokenizer& tokenizer, Marks marks, std::vector<uint16_t>& tokens) {
  std::string part;
  for (uint64_t begin = 0; begin < text.size(); begin += part.size()) {
    part = text.part(begin, 16 * block_bytes);
    const std::vector<uint16_t> more = tokenizer.encode(part, begin, marks);
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
}

}  // namespace

TokenStream load_tokens(const std::filesystem::path& path, int64_t vocabulary, Keep keep) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(fmt::format("{}: {}", path.string(), why));
  };
  if (vocabulary < 1 || vocabulary > 65536)
    refuse(fmt::format("the vocabulary must be between 1 and 65536, got {}", vocabulary));
  files::refuse_other(path, files::token_file);
  files::InputFile file(path);
  Header header{};
  if (file.size() < sizeof(header)) {
    refuse(fmt::format("a token file begins with a header of {} bytes, got {} bytes", sizeof(header), file.size()));
  }
  file.read(header.data(), sizeof(header));
  const auto [magic, version, count] = std::array<int32_t, 3>{header[0], header[1], header[2]};
  if (magic != kMagic) {
    refuse(
        fmt::format("the magic number must be {0}, got {1}; if these are tokens without a header, put llm.c's before "
                    "them: 256 int32 ({0}, {2}, the number of tokens, then zeros)",
                    kMagic, magic, kVersion));
  }
  if (version != kVersion) refuse(fmt::format("the version must be {}, got {}", kVersion, version));
  const uint64_t stored = file.size() - sizeof(header);
  if (count < 0 || static_cast<uint64_t>(count) * sizeof(uint16_t) != stored) {
    refuse(fmt::format("the header promises {} tokens of 2 bytes, but {} bytes follow it", count, stored));
  }
  TokenStream stream{{}, path.string(), "", path};
  const auto tokens = static_cast<size_t>(count);
  stream.tokens.resize(keep == Keep::in_memory ? tokens : std::min(tokens, block_tokens));
  files::Sha256 hash;
  for (size_t done = 0; done < tokens;) {
    const std::span<uint16_t> room = std::span(stream.tokens).subspan(keep == Keep::in_memory ? done : 0);
    const std::span<uint16_t> block = room.first(std::min({room.size(), tokens - done, block_tokens}));
    file.read(block.data(), block.size_bytes());
    const auto bad = std::ranges::find_if(block, [&](uint16_t token) { return token >= vocabulary; });
    if (bad != block.end()) {
      refuse(fmt::format("tokens must be between 0 and {}, got {} at position {}", vocabulary - 1, *bad,
                         done + static_cast<size_t>(bad - block.begin())));
    }
    hash_tokens(block, hash);
    done += block.size();
  }
  stream.sha256 = hash.hex();
  if (keep == Keep::in_file) {
    stream.tokens = {};
    stream.in_file = tokens;
  }
  return stream;
}

void write_tokens(const std::filesystem::path& path, std::span<const uint16_t> tokens) {
  constexpr int32_t most = std::numeric_limits<int32_t>::max();
  if (tokens.size() > static_cast<size_t>(most)) {
    throw std::invalid_argument(
        fmt::format("{}: a token file holds at most {} tokens, got {}", path.string(), most, tokens.size()));
  }
  const Header header = {kMagic, kVersion, static_cast<int32_t>(tokens.size())};
  if (files::is_standard_output(path)) {
    files::write_standard_output({reinterpret_cast<const char*>(header.data()), sizeof(header)});
    files::write_standard_output({reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()});
    return;
  }
  files::AtomicFile file(path, files::Links::followed);
  file.write(header.data(), sizeof(header));
  file.write(tokens.data(), tokens.size_bytes());
  file.commit();
}

namespace {

// Once, and of several ranks by one.
void note_not_cached(const std::filesystem::path& cache_folder, const std::system_error& error) {
  static bool is_said = false;
  if (std::exchange(is_said, true) || !ranks_of_environment().is_first()) return;
  fmt::print(stderr, "note: {} cannot be written ({}), so the text is tokenized again the next time\n",
             files::printable(cache_folder.string()), error.code().message());
}

}  // namespace

TokenStream tokens_of_text(const std::filesystem::path& text_path, const std::filesystem::path& vocabulary_path,
                           const std::filesystem::path& cache_folder, Keep keep, Marks marks) {
  files::refuse_other(text_path, files::text_file);
  TextFile text(text_path);
  files::Sha256 key;
  files::hash_file(text_path, key);
  key.update(files::read_file(vocabulary_path));
  if (marks == Marks::end_of_text) key.update(Tokenizer::end_of_text_mark);
  const std::filesystem::path cache = cache_folder / (key.hex().substr(0, 16) + ".bin");
  const Tokenizer tokenizer = Tokenizer::load(vocabulary_path);
  const auto named = [&](TokenStream stream) {
    stream.source = text_path.string();
    stream.text = text_path;
    stream.vocabulary = vocabulary_path;
    return stream;
  };
  try {
    TokenStream cached = load_tokens(cache, tokenizer.size(), keep);
    (void)places_of_tokens(text, tokenizer, cache);
    return named(std::move(cached));
  } catch (const std::invalid_argument&) {
    // missing or damaged: written below
  }
  TokenStream stream{{}, text_path.string(), "", cache};
  try {
    tokenize(text, tokenizer, marks, stream.tokens);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{}: {}", text_path.string(), error.what()));
  }
  try {
    std::filesystem::create_directories(cache_folder);
    write_tokens(cache, stream.tokens);
  } catch (const std::system_error& error) {
    if (keep == Keep::in_file) throw;
    stream.file.clear();
    note_not_cached(cache_folder, error);
  }
  if (keep == Keep::in_file) return named(load_tokens(cache, tokenizer.size(), keep));
  files::Sha256 hash;
  hash_tokens(stream.tokens, hash);
  stream.sha256 = hash.hex();
  return named(std::move(stream));
}

TokenStream tokens_of(const std::filesystem::path& path, const std::filesystem::path& vocabulary_path,
                      const std::filesystem::path& cache_folder, int64_t vocabulary, Keep keep, Marks marks) {
  if (files::is_token_file(path)) return load_tokens(path, vocabulary, keep);
  return tokens_of_text(path, vocabulary_path, cache_folder, keep, marks);
}

int64_t marks_in_file(const std::filesystem::path& text_path) {
  TextFile text(text_path);
  int64_t count = 0;
  std::string part;  // which no mark crosses, because none has white space
  for (uint64_t begin = 0; begin < text.size(); begin += part.size()) {
    part = text.part(begin, block_bytes);
    count += marks_in(part);
  }
  return count;
}

std::filesystem::path repeated_text(const std::filesystem::path& text_path, uint64_t bytes,
                                    const std::filesystem::path& cache_folder) {
  files::refuse_other(text_path, files::text_file);
  const std::string text = files::read_file(text_path);
  if (text.empty()) throw std::invalid_argument(fmt::format("{}: is empty", text_path.string()));
  const uint64_t copies = (bytes + text.size() - 1) / text.size();
  if (copies <= 1) return text_path;
  const std::filesystem::path repeated = cache_folder / fmt::format("{}-{}-times-{}.txt", text_path.stem().string(),
                                                                    copies, files::sha256_hex(text).substr(0, 8));
  std::error_code unknown;  // where there is none yet
  if (std::filesystem::file_size(repeated, unknown) == copies * text.size() && !unknown) return repeated;
  try {
    std::filesystem::create_directories(cache_folder);
    files::AtomicFile file(repeated, files::Links::followed);
    for (uint64_t copy = 0; copy < copies; ++copy) file.write(text.data(), text.size());
    file.commit();
  } catch (const std::system_error& error) {
    throw std::invalid_argument(
        fmt::format("--repeat-to: {} cannot be written ({}); XDG_CACHE_HOME names another folder", repeated.string(),
                    error.code().message()));
  }
  return repeated;
}

}  // namespace model
