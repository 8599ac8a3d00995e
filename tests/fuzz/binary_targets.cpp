// Weights, tokens, vocabularies and text.
#include "fuzz/input.h"
#include "fuzz/targets.h"
#include "model/data.h"
#include "model/safetensors.h"
#include "model/tokenizer.h"

#include <cstdint>
#include <cstdlib>
#include <stdexcept>

namespace fuzz {
namespace {

std::string base64(const std::string& bytes) {
  constexpr char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = i; j < i + 3; ++j) {
      bits = bits << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U);
    }
    for (size_t j = 0; j < 4; ++j) text += i + j <= bytes.size() ? alphabet[bits >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

// The bytes of rank 0..50255.
std::string made_up_token(size_t rank) {
  if (rank < 256) return {static_cast<char>(rank)};
  return {static_cast<char>((rank - 256) / 256), static_cast<char>((rank - 256) % 256)};
}

}  // namespace

std::string rank_file() {
  std::string text;
  for (size_t rank = 0; rank < 50256; ++rank) text += base64(made_up_token(rank)) + " " + std::to_string(rank) + "\n";
  return text;
}

std::string merge_list() {
  // 188 printable bytes stand for themselves, U+0100.. for the 68 others; pairs of the former and of these are enough.
  std::vector<std::string> characters;
  const auto utf8 = [](uint32_t code) {
    if (code < 0x80) return std::string{static_cast<char>(code)};
    return std::string{static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
  };
  for (uint32_t code = 0x21; code < 0x144; ++code) {
    const bool stands = code <= 0x7e || (code >= 0xa1 && code <= 0xac) || code >= 0xae;
    if (stands) characters.push_back(utf8(code));
  }
  std::string text = "#version: 0.2\n";
  for (size_t merge = 0; merge < 50000; ++merge) {
    text += characters[merge / 256] + " " + characters[merge % 256] + "\n";
  }
  return text;
}

bool read_safetensors(std::string_view bytes) {
  static const MemoryFile file;
  file.write(bytes);
  return taken([] {
    const auto shapes = model::read_safetensors_shapes(file.path());
    for (const auto& [name, tensor] : model::read_safetensors(file.path())) {
      if (tensor.sizes() != shapes.at(name)) throw std::logic_error("the header has another shape");
      if (tensor.numel() > 0) (void)tensor.flatten()[-1].item<double>();
    }
  });
}

bool read_tokens(std::string_view bytes) {
  static const MemoryFile file;
  file.write(bytes);
  return taken([] {
    const auto stream = model::load_tokens(file.path(), 50257);
    model::BatchLoader loader(stream, 1, 4, 5);
    for (int i = 0; i < 3; ++i) (void)loader.next();
  });
}

bool read_vocabulary(std::string_view bytes) {
  static const MemoryFile file;
  file.write(bytes);
  return taken([] { (void)model::Tokenizer::load(file.path()).encode("It's a text.\n"); });
}

bool encode_text(std::string_view bytes) {
  static const model::Tokenizer tokenizer = [] {
    const MemoryFile vocabulary;
    vocabulary.write(rank_file());
    return model::Tokenizer::load(vocabulary.path());
  }();
  return taken([&] {
    if (tokenizer.decode(tokenizer.encode(bytes)) != bytes) throw std::logic_error("the tokens are of another text");
  });
}

}  // namespace fuzz
