// Damaged files for every reader: a reader must succeed or throw std::invalid_argument with one line, nothing else.
// Worth most under the address and undefined-behaviour sanitizers. The mutations come from a fixed seed, and a failure
// names seed and round, so it can be repeated. The vocabulary is made here: 256 bytes and 50000 pairs of them.
#include "files/files.h"
#include "model/data.h"
#include "model/safetensors.h"
#include "model/tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <stdexcept>

namespace {

namespace fs = std::filesystem;

using Random = std::mt19937_64;  // its numbers are the same with every standard library; those of distributions are not

std::string mutate(std::string bytes, Random& random) {
  const auto below = [&](size_t bound) { return bound == 0 ? 0 : random() % bound; };
  const auto any_range = [&] {
    const size_t start = below(bytes.size() + 1);
    return std::pair(start, below(std::min<size_t>(bytes.size() - start, 64) + 1));
  };
  for (size_t times = 1 + below(3); times > 0; --times) {
    const size_t at = below(bytes.size());
    const auto [start, count] = any_range();
    switch (below(8)) {
      case 0:  // one bit
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
        break;
      case 1:  // one byte
        if (!bytes.empty()) bytes[at] = static_cast<char>(random());
        break;
      case 2:  // cut short
        bytes.resize(at);
        break;
      case 3:  // a stretch taken out
        bytes.erase(start, count);
        break;
      case 4:  // a stretch put in elsewhere
        bytes.insert(at, bytes.substr(start, count));
        break;
      case 5: {  // a 4- or 8-byte number of an extreme value, often a length at the front
        constexpr uint64_t extremes[] = {0,          1,    0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff,
                                         1ULL << 63, ~0ULL};
        const uint64_t value = extremes[below(8)];
        const size_t width = below(2) == 0 ? 4 : 8;
        const size_t place = below(2) == 0 ? below(12) / 4 * 4 : at;
        for (size_t i = 0; i < width && place + i < bytes.size(); ++i) {
          bytes[place + i] = static_cast<char>(value >> 8 * i);
        }
        break;
      }
      case 6: {  // a digit run replaced by a number that may overflow
        const size_t digit = bytes.find_first_of("0123456789", at);
        if (digit == std::string::npos) break;
        const char* numbers[] = {
            "-1", "18446744073709551615", "9223372036854775807", "4611686018427387904", "1e9", "0.5", "0"};
        bytes.replace(digit, bytes.find_first_not_of("0123456789", digit) - digit, numbers[below(7)]);
        break;
      }
      default:  // random bytes at the end
        for (size_t i = below(16); i > 0; --i) bytes.push_back(static_cast<char>(random()));
    }
  }
  return bytes;
}

class ReadersMutationTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& bytes) const {
    std::ofstream(file_, std::ios::binary) << bytes;
    return file_;
  }

  // Runs `read` on `rounds` mutations of `good`, and expects that some are refused.
  void run(const std::string& good, uint64_t seed, int rounds, const std::function<void(const fs::path&)>& read) const {
    ASSERT_NO_THROW(read(write(good)));
    Random random(seed);
    int refused = 0;
    for (int round = 0; round < rounds; ++round) {
      try {
        read(write(mutate(good, random)));
      } catch (const std::invalid_argument& error) {
        ++refused;
        const std::string message = error.what();
        ASSERT_EQ(message.find('\n'), std::string::npos) << "seed " << seed << " round " << round << ": " << message;
        ASSERT_LT(message.size(), 1000U) << "seed " << seed << " round " << round << ": " << message;
      } catch (const std::exception& error) {
        FAIL() << "seed " << seed << " round " << round << ": " << error.what();
      }
    }
    EXPECT_GT(refused, rounds / 4) << "mutations that damage nothing test nothing";
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / ("readers_mutation_test." + std::to_string(getpid()));
  const fs::path file_ = folder_ / "file";
};

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

TEST_F(ReadersMutationTest, Safetensors) {
  model::write_safetensors(file_,
                           {{"a", at::ones({2, 3})}, {"b", at::ones({4}, at::kBool)}, {"c", at::scalar_tensor(1.0)}},
                           {{"format", "pt"}});
  const std::string good = files::read_file(file_);
  run(good, 1, 3000, [](const fs::path& path) {
    for (const auto& [name, tensor] : model::read_safetensors(path)) (void)tensor.sum().item<double>();
  });
}

TEST_F(ReadersMutationTest, TokenFile) {
  const std::vector<uint16_t> tokens = {1, 2, 3, 500, 50256, 7, 8, 9};
  model::write_tokens(file_, tokens);
  run(files::read_file(file_), 2, 3000, [](const fs::path& path) {
    const auto stream = model::load_tokens(path, 50257);
    (void)model::BatchLoader(stream, 1, 4, 5).next();
  });
}

TEST_F(ReadersMutationTest, RankFile) {
  run(rank_file(), 3, 60, [](const fs::path& path) { (void)model::Tokenizer::load(path); });
}

TEST_F(ReadersMutationTest, MergeList) {
  run(merge_list(), 4, 60, [](const fs::path& path) { (void)model::Tokenizer::load(path); });
}

TEST_F(ReadersMutationTest, Text) {
  const auto tokenizer = model::Tokenizer::load(write(rank_file()));
  const std::string good = "It's\u00a0 1st \u2028 \u4e2d\u6587 \U0001f600\n\n  '\u2019ll x\x1c\t";
  run(good, 5, 3000, [&](const fs::path& path) {
    const std::string text = files::read_file(path);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  });
}

TEST_F(ReadersMutationTest, CachedTokens) {
  const fs::path vocabulary = folder_ / "vocabulary";
  std::ofstream(vocabulary, std::ios::binary) << rank_file();
  const fs::path text = folder_ / "text";
  std::ofstream(text) << "some text in a file";
  const fs::path cache = folder_ / "cache";
  const auto right = model::tokens_of_text(text, vocabulary, cache).tokens;
  const fs::path cached = fs::directory_iterator(cache)->path();
  const std::string good = files::read_file(cached);
  Random random(6);
  for (int round = 0; round < 40; ++round) {
    std::ofstream(cached, std::ios::binary) << mutate(good, random);
    ASSERT_EQ(model::tokens_of_text(text, vocabulary, cache).tokens, right) << "round " << round;
  }
}

}  // namespace
