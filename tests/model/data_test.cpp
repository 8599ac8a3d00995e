// Token files, the cache of tokenised texts, and batches. The token files are built here byte by byte, so that
// reader and writer cannot agree on a wrong format.
#include "model/data.h"

#include "files/files.h"
#include "files/sha256.h"
#include "model/tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <stdexcept>
#include <system_error>

namespace {

namespace fs = std::filesystem;

class DataTest : public testing::Test {
 protected:
  fs::path file(const std::string& name, const std::string& contents) const {
    std::ofstream(folder_ / name, std::ios::binary) << contents;
    return folder_ / name;
  }

  std::string refusal(const std::string& contents, int64_t vocabulary = 50257) const {
    try {
      (void)model::load_tokens(file("tokens.bin", contents), vocabulary);
    } catch (const std::invalid_argument& error) {
      const std::string message = error.what();
      const std::string prefix = (folder_ / "tokens.bin").string() + ": ";
      return message.starts_with(prefix) ? message.substr(prefix.size()) : "does not name the file: " + message;
    }
    return "accepted";
  }

  const files::TemporaryFolder temporary_{"data-test"};
  const fs::path folder_ = temporary_.path();
};

std::string token_file(int32_t magic, int32_t version, int32_t count, const std::string& tokens) {
  std::string bytes(1024, '\0');
  std::memcpy(bytes.data(), &magic, 4);
  std::memcpy(bytes.data() + 4, &version, 4);
  std::memcpy(bytes.data() + 8, &count, 4);
  return bytes + tokens;
}

model::TokenStream counting(size_t count) {
  model::TokenStream stream{std::vector<uint16_t>(count), "test", ""};
  std::iota(stream.tokens.begin(), stream.tokens.end(), uint16_t{0});
  return stream;
}

int64_t first_input(const model::TokenStream& stream, int64_t B, int64_t T, uint64_t seed) {
  return model::BatchLoader(stream, B, T, seed).next().first[0][0].item<int64_t>();
}

TEST_F(DataTest, ReadsAndWritesLlmCsFormat) {
  const std::string bytes = token_file(20240520, 1, 3, std::string("\x01\x00\x02\x00\x50\xc4", 6));
  const auto stream = model::load_tokens(file("tokens.bin", bytes), 50257);
  EXPECT_EQ(stream.tokens, (std::vector<uint16_t>{1, 2, 50256}));
  EXPECT_EQ(stream.source, (folder_ / "tokens.bin").string());
  EXPECT_EQ(stream.sha256, files::sha256_hex(std::string("\x01\x00\x02\x00\x50\xc4", 6)));
  model::write_tokens(folder_ / "copy.bin", stream.tokens);
  EXPECT_EQ(files::read_file(folder_ / "copy.bin"), bytes);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2) << "a temporary file was left behind";
}

TEST_F(DataTest, RefusesWhatIsNotATokenFile) {
  const std::string two("\x01\x00\x02\x00", 4);
  EXPECT_EQ(refusal(token_file(20240520, 1, 2, two)), "accepted");
  EXPECT_EQ(refusal(""), "a token file begins with a header of 1024 bytes, got 0 bytes");
  EXPECT_EQ(refusal(token_file(20240520, 1, 0, "")), "accepted");
  EXPECT_EQ(refusal(token_file(20240520, 1, 2, two).substr(0, 500)),
            "a token file begins with a header of 1024 bytes, got 500 bytes");
  EXPECT_EQ(refusal(token_file(20240521, 1, 2, two)), "the magic number must be 20240520, got 20240521");
  EXPECT_EQ(refusal(token_file(20240520, 2, 2, two)), "the version must be 1, got 2");
  EXPECT_EQ(refusal(token_file(20240520, 1, 3, two)), "the header promises 3 tokens of 2 bytes, but 4 bytes follow it");
  EXPECT_EQ(refusal(token_file(20240520, 1, -2, two)),
            "the header promises -2 tokens of 2 bytes, but 4 bytes follow it");
  EXPECT_EQ(refusal(token_file(20240520, 1, 2, two + "x")),
            "the header promises 2 tokens of 2 bytes, but 5 bytes follow it");
  EXPECT_EQ(refusal(token_file(20240520, 1, 2, two), 2), "tokens must be between 0 and 1, got 2 at position 1");
  EXPECT_EQ(refusal(token_file(20240520, 1, 2, two), 3), "accepted");
  EXPECT_EQ(refusal(token_file(20240520, 1, 2, two), 0), "the vocabulary must be between 1 and 65536, got 0");
  EXPECT_EQ(refusal(token_file(20240520, 1, 2, two), 65537), "the vocabulary must be between 1 and 65536, got 65537");
  EXPECT_THROW((void)model::load_tokens(folder_, 50257), std::invalid_argument);
  EXPECT_THROW((void)model::load_tokens(folder_ / "absent", 50257), std::invalid_argument);
}

TEST_F(DataTest, AWriteThatFailsLeavesTheOldFile) {
  const fs::path old = file("old", "contents");
  {
    files::AtomicFile unfinished(old);
    unfinished.write("new", 3);
  }
  EXPECT_EQ(files::read_file(old), "contents");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  EXPECT_THROW(model::write_tokens(folder_ / "absent" / "tokens.bin", {}), std::system_error);
  EXPECT_THROW(model::write_tokens(folder_, {}), std::system_error);  // a folder stands where the file should
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(DataTest, TextsAreTokenisedOnceAndDamagedCacheFilesRebuilt) {
  const char* vocabulary = std::getenv("LADDER_TEST_VOCAB");
  if (vocabulary == nullptr) GTEST_SKIP() << "LADDER_TEST_VOCAB is not set";
  const fs::path text = file("text.txt", "hello world");
  const fs::path cache = folder_ / "new" / "cache";
  const auto first = model::tokens_of_text(text, vocabulary, cache);
  EXPECT_EQ(first.tokens, (std::vector<uint16_t>{31373, 995}));
  EXPECT_EQ(first.source, text.string());
  EXPECT_EQ(first.sha256, files::sha256_hex(std::string("\x8d\x7a\xe3\x03", 4)));
  const std::string key = files::sha256_hex("hello world" + files::read_file(vocabulary)).substr(0, 16);
  const fs::path cached = cache / (key + ".bin");
  const std::string good = files::read_file(cached);
  EXPECT_EQ(first.file, cached);
  EXPECT_EQ(model::load_tokens(first.file, 50257).tokens, first.tokens);
  const auto written = fs::last_write_time(cached) - std::chrono::hours(1);
  fs::last_write_time(cached, written);
  EXPECT_EQ(model::tokens_of_text(text, vocabulary, cache).tokens, first.tokens);
  EXPECT_EQ(fs::last_write_time(cached), written) << "was tokenised a second time";

  std::string other_token = good;
  other_token[1026] ^= 1;
  for (const std::string& damaged : {std::string(), good.substr(0, 1025), good + "x", other_token}) {
    std::ofstream(cached, std::ios::binary) << damaged;
    const auto again = model::tokens_of_text(text, vocabulary, cache);
    EXPECT_EQ(again.tokens, first.tokens);
    EXPECT_EQ(again.sha256, first.sha256);
    EXPECT_EQ(files::read_file(cached), good);
  }
  try {
    (void)model::tokens_of_text(file("bad.txt", "ab\xff"), vocabulary, cache);
    ADD_FAILURE() << "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(error.what(), (folder_ / "bad.txt").string() + ": invalid UTF-8 at byte 2; text must be UTF-8");
  }
}

TEST(BatchLoaderTest, TargetsAreTheInputsOneTokenOn) {
  const auto stream = counting(14);
  model::BatchLoader loader(stream, 2, 3, 0);
  const auto [inputs, targets] = loader.next();
  EXPECT_EQ(inputs.scalar_type(), at::kLong);
  EXPECT_TRUE(inputs.equal(at::arange(0, 6, at::kLong).view({2, 3})));
  EXPECT_TRUE(targets.equal(at::arange(1, 7, at::kLong).view({2, 3})));
  const auto [second, second_targets] = loader.next();
  EXPECT_TRUE(second.equal(at::arange(6, 12, at::kLong).view({2, 3})));
  EXPECT_TRUE(second_targets.equal(at::arange(7, 13, at::kLong).view({2, 3})));
  EXPECT_EQ(loader.next().first[0][0].item<int64_t>(), 0);  // 12 + 7 tokens are not there
  EXPECT_TRUE(inputs.equal(at::arange(0, 6, at::kLong).view({2, 3}))) << "batches must not share memory";
}

TEST(BatchLoaderTest, TheLastWindowThatFitsIsUsed) {
  for (const auto& [count, third] : {std::pair<size_t, int64_t>{12, 0}, {13, 0}, {18, 0}, {19, 12}}) {
    const auto stream = counting(count);
    model::BatchLoader loader(stream, 2, 3, 0);
    const int64_t second = count >= 13 ? 6 : 0;
    (void)loader.next();
    EXPECT_EQ(loader.next().first[0][0].item<int64_t>(), second) << count;
    if (second == 0) continue;
    EXPECT_EQ(loader.next().first[0][0].item<int64_t>(), third) << count;
  }
}

TEST(BatchLoaderTest, TheSeedChoosesTheFirstWindow) {
  const auto stream = counting(6001);
  // splitmix64's first numbers for seeds 1 and 2 are 10451216379200822465 and 10905525725756348110
  EXPECT_EQ(first_input(stream, 2, 3, 0), 0);
  EXPECT_EQ(first_input(stream, 2, 3, 1), 10451216379200822465U % 1000 * 6);
  EXPECT_EQ(first_input(stream, 2, 3, 2), 10905525725756348110U % 1000 * 6);
  std::set<int64_t> starts;
  const auto tight = counting(7 + 6);  // two windows and nothing to spare
  for (uint64_t seed = 1; seed < 50; ++seed) starts.insert(first_input(tight, 2, 3, seed));
  EXPECT_EQ(starts, (std::set<int64_t>{0, 6}));
}

TEST(BatchLoaderTest, SkipsAsIfItHadGivenThem) {
  const auto stream = counting(6 * 7 + 3);
  for (const uint64_t seed : {0, 1, 5}) {
    model::BatchLoader walked(stream, 2, 3, seed);
    EXPECT_EQ(walked.windows(), 7);
    for (int64_t batches = 0; batches < 20; ++batches) {
      model::BatchLoader skipped(stream, 2, 3, seed);
      skipped.skip(batches);
      EXPECT_EQ(skipped.position(), walked.position()) << batches;
      EXPECT_EQ(skipped.next().first[0][0].item<int64_t>(), walked.position()) << batches;
      (void)walked.next();
    }
  }
}

TEST(BatchLoaderTest, RefusesWhatDoesNotFit) {
  const auto stream = counting(6);
  EXPECT_NO_THROW(model::BatchLoader(stream, 1, 5, 3));
  EXPECT_THROW(model::BatchLoader(stream, 0, 3, 0), std::invalid_argument);
  EXPECT_THROW(model::BatchLoader(stream, 1, -3, 0), std::invalid_argument);
  EXPECT_THROW(model::BatchLoader(stream, int64_t{1} << 62, int64_t{1} << 62, 0), std::invalid_argument);
  for (const size_t count : {size_t{0}, size_t{6}}) {
    const auto few = counting(count);
    try {
      model::BatchLoader(few, 2, 3, 0);
      ADD_FAILURE() << "accepted";
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(error.what(), "test: " + std::to_string(count) + " tokens; a batch of 2 x 3 needs 2 x 3 + 1");
    }
  }
}

}  // namespace
