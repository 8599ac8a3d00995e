// Weights, tokens, vocabularies, text, and what a program prints.
#include "files/printable.h"
#include "fuzz/input.h"
#include "fuzz/targets.h"
#include "harness/lines/step_pace.h"
#include "harness/lines/step_reader.h"
#include "model/data.h"
#include "model/safetensors.h"
#include "model/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
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

// The steps in `bytes` where reads bring at most `most` of them, some fewer; 0: all at once.
std::string steps_by_reads(std::string_view bytes, size_t most, const char* steps_from) {
  harness::TrialLines trial(steps_from);
  std::string said;
  for (size_t begin = 0, size = 0; begin < bytes.size(); begin += size) {
    size = most == 0 ? bytes.size() : 1 + 7 * static_cast<unsigned char>(bytes[begin]) % most;
    trial.take(0, bytes.substr(begin, size), 0);
  }
  trial.end();
  const auto learned = trial.learned();
  for (const auto& step : learned ? learned->steps : std::vector<harness::StepLine>{}) {
    said += fmt::format("{} {} {} {} {}\n", step.step, step.numbered, step.loss.value_or(-0.5),
                        step.tokens_per_s.value_or(-0.5), step.own_ms.value_or(-0.5));
  }
  if (learned && learned->steps.size() > 2) (void)harness::pace_of(learned->steps);
  const auto shapes = trial.frequent_shapes(bytes.size() + 1);
  if (shapes.size() > 1000) throw std::logic_error("memory grows with the lines' shapes");
  for (const auto& [shape, line, count] : shapes) {
    if (files::printable(shape) != shape) throw std::logic_error("a shape is not printable: " + shape);
    if (const std::string pattern = harness::pattern_for(line); !pattern.empty()) {
      const auto found = harness::StepPattern(pattern).find(line);
      if (!found.step && !found.loss)
        throw std::logic_error("a pattern does not find its line: " + files::printable(line));
    }
    said += fmt::format("{} {}\n", count, shape);
  }
  return said;
}

}  // namespace

bool read_lines(std::string_view bytes) {
  const char* const pattern = "(?P<step>[0-9]+).*?(?P<loss>[0-9.naif]+)";
  for (const char* const steps_from : {"", pattern}) {
    const std::string whole = steps_by_reads(bytes, 0, steps_from);
    for (const size_t most : {1, 2, 29, 1000}) {
      if (steps_by_reads(bytes, most, steps_from) != whole) throw std::logic_error("the steps depend on the reads");
    }
  }
  harness::TrialLines trial;
  trial.take(0, bytes, 0);
  trial.end();
  const auto learned = trial.learned();
  return learned && std::ranges::any_of(learned->steps, [](const auto& step) { return step.loss.has_value(); });
}

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

Target target_of(const std::string& seeds) {
  static const std::map<std::string, Target> binary{{"lines", read_lines},
                                                    {"safetensors", read_safetensors},
                                                    {"text", encode_text},
                                                    {"tokens", read_tokens},
                                                    {"vocabulary", read_vocabulary}};
  const auto found = binary.find(seeds);
  return found == binary.end() ? read_document : found->second;
}

}  // namespace fuzz
