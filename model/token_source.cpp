#include "model/token_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace model {
namespace {

class TokensInMemory : public TokenSource {
 public:
  explicit TokensInMemory(std::span<const uint16_t> tokens) : tokens_(tokens) {}
  std::span<const uint16_t> at(size_t position, size_t count) override { return tokens_.subspan(position, count); }

 private:
  std::span<const uint16_t> tokens_;
};

class TokensInFile : public TokenSource {
 public:
  explicit TokensInFile(const std::filesystem::path& path) : file_(path) {}
  std::span<const uint16_t> at(size_t position, size_t count) override {
    tokens_.resize(count);
    const size_t bytes = count * sizeof(uint16_t);
    file_.read_at(token_file_header + position * sizeof(uint16_t), tokens_.data(), bytes);
    ++work_.reads;
    work_.bytes_read += static_cast<int64_t>(bytes);
    return tokens_;
  }

 private:
  files::InputFile file_;
  std::vector<uint16_t> tokens_;
};

class MappedTokens : public TokenSource {
 public:
  explicit MappedTokens(const std::filesystem::path& path) : file_(path) {}
  std::span<const uint16_t> at(size_t position, size_t count) override {
    const auto* tokens = reinterpret_cast<const uint16_t*>(file_.bytes().data() + token_file_header);
    return {tokens + position, count};
  }

 private:
  files::MappedFile file_;
};

// A token file may have become shorter since load_tokens read it, and a mapping would not say so.
const std::filesystem::path& checked_file(const TokenStream& stream) {
  if (stream.file.empty()) {
    throw std::invalid_argument(fmt::format("{}: its tokens are in no token file", stream.source));
  }
  const uint64_t expected = token_file_header + stream.size() * sizeof(uint16_t),
                 size = files::InputFile(stream.file).size();
  if (size != expected) {
    throw std::invalid_argument(
        fmt::format("{}: the file has changed: it had {} bytes, and has {}", stream.file.string(), expected, size));
  }
  return stream.file;
}

}  // namespace

std::unique_ptr<TokenSource> source_of(Batches batches, const TokenStream& stream) {
  switch (batches) {
    case Batches::tokenized:
      if (stream.text.empty() || stream.vocabulary.empty()) {
        throw std::invalid_argument(
            fmt::format("{}: batches that are tokenized in the step need a text, and this is none", stream.source));
      }
      return std::make_unique<TokenizedText>(stream.text, stream.vocabulary, checked_file(stream));
    case Batches::read:
      return std::make_unique<TokensInFile>(checked_file(stream));
    case Batches::mapped:
      return std::make_unique<MappedTokens>(checked_file(stream));
    default:
      break;
  }
  if (stream.tokens.empty()) throw std::invalid_argument(fmt::format("{}: no tokens are in memory", stream.source));
  return std::make_unique<TokensInMemory>(stream.tokens);
}

std::vector<uint64_t> places_of_tokens(TextFile& text, const Tokenizer& tokenizer,
                                       const std::filesystem::path& token_file) {
  const auto check = [&](bool good) {
    if (good) return;
    throw std::invalid_argument(
        fmt::format("{}: its tokens are not those of {}", token_file.string(), text.path().string()));
  };
  const files::InputFile file(token_file);
  check(file.size() >= token_file_header);
  std::vector<uint64_t> places;
  std::vector<uint16_t> tokens;
  uint64_t byte = 0, at = token_file_header;
  for (uint64_t left = (file.size() - token_file_header) / sizeof(uint16_t); left > 0; left -= tokens.size()) {
    tokens.resize(static_cast<size_t>(std::min<uint64_t>(left, TokenizedText::places_apart)));
    file.read_at(at, tokens.data(), tokens.size() * sizeof(uint16_t));
    at += tokens.size() * sizeof(uint16_t);
    const std::string bytes = tokenizer.decode(tokens);
    check(bytes.size() <= text.size() - byte && text.bytes(byte, bytes.size()) == bytes);
    places.push_back(byte);
    byte += bytes.size();
  }
  check(byte == text.size());
  return places;
}

TokenizedText::TokenizedText(const std::filesystem::path& text, const std::filesystem::path& vocabulary,
                             const std::filesystem::path& token_file)
    : text_(text), tokenizer_(Tokenizer::load(vocabulary)), places_(places_of_tokens(text_, tokenizer_, token_file)) {}

std::span<const uint16_t> TokenizedText::at(size_t position, size_t count) {
  const BatchWork before{.reads = text_.reads(), .bytes_read = text_.bytes_read()};
  if (position < first_ || position > first_ + made_.size()) go_to(position);
  made_.erase(made_.begin(), made_.begin() + static_cast<std::ptrdiff_t>(position - first_));
  first_ = position;
  while (made_.size() < count) tokenize(count - made_.size());
  work_.reads += text_.reads() - before.reads;
  work_.bytes_read += text_.bytes_read() - before.bytes_read;
  return std::span(made_).first(count);
}

void TokenizedText::tokenize(size_t tokens) {
  constexpr size_t bytes_per_token = 3;  // a little less than usual, so that few tokens are left over
  if (byte_ == text_.size()) throw std::logic_error("TokenizedText: asked for more tokens than there are");
  const std::string part = text_.part(byte_, tokens * bytes_per_token);
  const std::vector<uint16_t> more = tokenizer_.encode(part, byte_);
  made_.insert(made_.end(), more.begin(), more.end());
  byte_ += part.size();
  work_.tokenized += static_cast<int64_t>(more.size());
}

void TokenizedText::go_to(size_t position) {
  const size_t place = position / places_apart;
  first_ = place * places_apart;
  made_.clear();
  byte_ = text_.cut_before(places_.at(place));
  // From the cut to the place.
  uint64_t skipped = byte_;
  while (skipped < places_[place]) {
    size_t tokens = 0;
    tokenize(places_apart / 256);
    while (tokens < made_.size() && skipped < places_[place]) {
      skipped += tokenizer_.decode(std::span(made_).subspan(tokens++, 1)).size();
    }
    made_.erase(made_.begin(), made_.begin() + static_cast<std::ptrdiff_t>(tokens));
  }
  while (made_.size() < position - first_) tokenize(position - first_ - made_.size());
}

}  // namespace model
