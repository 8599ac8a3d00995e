// Token files, the cache of tokenised texts, and batches. The token files are built here byte by byte, so that
// reader and writer cannot agree on a wrong format.
#include "model/data.h"

#include "files/files.h"
#include "files/sha256.h"
#include "model/inputs.h"
#include "model/text_file.h"
#include "model/token_source.h"
#include "model/tokenizer.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace data_test {

namespace fs = std::filesystem;

class DataTest : public testing::Test {
 protected:
  fs::path file(const std::string& name, const std::string& contents) const {
    std::ofstream(folder_ / name, std::ios::binary) << contents;
    return folder_ / name;
  }

  std::string refusal(const std::string& contents, int64_t vocabulary = 50257) const {
    const fs::path path = file("tokens.bin", contents);
    const std::string message = refusal_of([&] { return model::load_tokens(path, vocabulary); });
    EXPECT_EQ(refusal_of([&] { return model::load_tokens(path, vocabulary, model::Keep::in_file); }), message);
    const std::string prefix = path.string() + ": ";
    return message.starts_with(prefix) ? message.substr(prefix.size()) : message;  // else it does not name the file
  }

  const files::TemporaryFolder temporary_{"data-test"};
  const fs::path folder_ = temporary_.path();
};

class TextTest : public DataTest {
 protected:
  void SetUp() override {
    if (vocabulary == nullptr) GTEST_SKIP() << "LADDER_TEST_VOCAB is not set";
  }
  const char* const vocabulary = std::getenv("LADDER_TEST_VOCAB");
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

constexpr auto consecutive = model::Windows::consecutive, random_windows = model::Windows::random;

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
  EXPECT_EQ(refusal(token_file(20240521, 1, 2, two)),
            "the magic number must be 20240520, got 20240521; if these are tokens without a header, put llm.c's before "
            "them: 256 int32 (20240520, 1, the number of tokens, then zeros)");
  EXPECT_TRUE(refusal("version https://git-lfs.github.com/spec/v1\n").starts_with("is a Git LFS pointer, not a token"));
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

TEST_F(TextTest, TextsAreTokenisedOnceAndDamagedCacheFilesRebuilt) {
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
  // Where the cache cannot be written, the tokens are in memory.
  const fs::path blocked = file("blocked", "") / "cache";
  const auto uncached = model::tokens_of_text(text, vocabulary, blocked);
  EXPECT_EQ(uncached.tokens, first.tokens);
  EXPECT_EQ(uncached.sha256, first.sha256);
  EXPECT_TRUE(uncached.file.empty());
  EXPECT_THROW((void)model::tokens_of_text(text, vocabulary, blocked, model::Keep::in_file), std::system_error);
  const fs::path bad = file("bad.txt", "ab\xff");
  EXPECT_EQ(refusal_of([&] { return model::tokens_of_text(bad, vocabulary, cache); }),
            bad.string() + ": invalid UTF-8 at byte 2; text must be UTF-8");
}

TEST_F(DataTest, ATokenFileIsKnownWithoutItsNameAndAPointerIsNoText) {
  const fs::path shard = file("shard_000001", token_file(20240520, 1, 2, std::string("\x01\x00\x02\x00", 4)));
  EXPECT_EQ(model::tokens_of(shard, "no vocabulary", folder_, 50257).tokens, (std::vector<uint16_t>{1, 2}));
  const fs::path pointer = file("book.txt", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
  EXPECT_THROW((void)model::tokens_of(pointer, "no vocabulary", folder_, 50257), std::invalid_argument);
  EXPECT_THROW((void)model::repeated_text(pointer, 1000, folder_), std::invalid_argument);
}

TEST_F(TextTest, MarksOfDocumentsAreCountedAndCachedApart) {
  const fs::path text = file("text.txt", "hello<|endoftext|>hello");
  EXPECT_EQ(model::marks_in_file(text), 1);
  for (int round = 0; round < 2; ++round) {
    const auto tokens = [&](model::Marks marks) {
      return model::tokens_of(text, vocabulary, folder_ / "cache", 50257, model::Keep::in_memory, marks).tokens;
    };
    EXPECT_EQ(tokens(model::Marks::text).size(), 9U);
    EXPECT_EQ(tokens(model::Marks::end_of_text), (std::vector<uint16_t>{31373, 50256, 31373}));
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

TEST(BatchLoaderTest, RandomWindowsAreDrawnForEachSequence) {
  const auto stream = counting(6001);
  model::BatchLoader loader(stream, 2, 3, /*seed=*/1, model::Batches::gather, {}, random_windows);
  for (const auto& numbers : {std::array{10451216379200822465U, 13757245211066428519U},
                              std::array{17911839290282890590U, 8196980753821780235U}}) {  // splitmix64's for seed 1
    const auto [inputs, targets] = loader.next();
    for (int64_t b = 0; b < 2; ++b) {
      const auto begin = static_cast<int64_t>(numbers[static_cast<size_t>(b)] % (6001 - 3));
      EXPECT_TRUE(inputs[b].equal(at::arange(begin, begin + 3, at::kLong))) << inputs;
      EXPECT_TRUE(targets[b].equal(at::arange(begin + 1, begin + 4, at::kLong))) << targets;
    }
  }
  std::set<int64_t> starts;
  const auto tight = counting(8);  // five places, of which the last ends with the last token
  model::BatchLoader all(tight, 2, 3, 7, model::Batches::gather, {}, random_windows);
  for (int i = 0; i < 50; ++i) starts.insert(all.next().first[i % 2][0].item<int64_t>());
  EXPECT_EQ(starts, (std::set<int64_t>{0, 1, 2, 3, 4}));
}

TEST(BatchLoaderTest, SkipsAsIfItHadGivenThem) {
  const auto stream = counting(6 * 7 + 3);
  for (const auto& [seed, windows] :
       {std::pair{0, consecutive}, {1, consecutive}, {5, consecutive}, {5, random_windows}}) {
    const auto loader_of = [&, seed = seed, windows = windows] {
      return std::make_unique<model::BatchLoader>(stream, 2, 3, seed, model::Batches::gather, model::Share(), windows);
    };
    const auto walker = loader_of();
    model::BatchLoader& walked = *walker;
    EXPECT_EQ(walked.windows(), 7);
    for (int64_t batches = 0; batches < 20; ++batches) {
      const auto skipper = loader_of();
      model::BatchLoader& skipped = *skipper;
      skipped.skip(batches);
      EXPECT_EQ(skipped.position(), walked.position()) << batches;
      EXPECT_EQ(skipped.next().first[0][0].item<int64_t>(), walked.position()) << batches;
      (void)walked.next();
    }
  }
}

TEST(BatchLoaderTest, RanksTogetherAreGivenTheBatchesOfOne) {
  constexpr int64_t B = 2, T = 3, ranks = 3;
  const auto stream = counting(100);
  for (const auto& [batches, windows] : {std::pair{model::Batches::gather, consecutive},
                                         {model::Batches::preloaded, consecutive},
                                         {model::Batches::gather, random_windows},
                                         {model::Batches::preloaded, random_windows}}) {
    model::BatchLoader one(stream, ranks * B, T, 5, model::Batches::gather, {}, windows);
    std::vector<std::unique_ptr<model::BatchLoader>> shares;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      shares.push_back(std::make_unique<model::BatchLoader>(stream, B, T, 5, batches,
                                                            model::Share{.rank = rank, .ranks = ranks}, windows));
      EXPECT_EQ(shares.back()->windows(), one.windows());
    }
    for (int step = 0; step < 12; ++step) {  // around the end of the text, more than once
      const auto [inputs, targets] = one.next();
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const auto [own_inputs, own_targets] = shares[static_cast<size_t>(rank)]->next();
        EXPECT_TRUE(own_inputs.equal(inputs.narrow(0, rank * B, B))) << "step " << step << ", rank " << rank;
        EXPECT_TRUE(own_targets.equal(targets.narrow(0, rank * B, B))) << "step " << step << ", rank " << rank;
        EXPECT_EQ(shares[static_cast<size_t>(rank)]->position(), one.position());
      }
    }
  }
}

TEST(BatchLoaderTest, RefusesWhatTheBatchesNeedAndTheStreamLacks) {
  const auto stream = counting(14);  // of no file
  for (const model::Batches batches : {model::Batches::tokenized, model::Batches::read, model::Batches::mapped}) {
    EXPECT_THROW(model::BatchLoader(stream, 2, 3, 0, batches), std::invalid_argument);
  }
  for (const model::Batches batches : {model::Batches::gather, model::Batches::preloaded}) {
    EXPECT_NO_THROW(model::BatchLoader(stream, 2, 3, 0, batches));
    model::TokenStream elsewhere{{}, "test", ""};
    elsewhere.in_file = 14;
    EXPECT_THROW(model::BatchLoader(elsewhere, 2, 3, 0, batches), std::invalid_argument);
  }
}

// Every kind of character that the split pattern tells apart, long runs without a cut, and white space of all sorts.
std::string a_text() {
  const std::vector<std::string> parts = {
      "the ",  "King's",        " 1623", "\n\n", "  \t ", "don't",  " \u00e9t\u00e9",      "\u00a0", "\u3000",
      "...!?", " \u4f60\u597d", "x",     "\r\n", "'ll ",  "\u2028", std::string(200, 'y'), ", ",     "<|endoftext|>"};
  std::string text;
  uint32_t random = 1;
  while (text.size() < 20000) {
    random = random * 1664525 + 1013904223;
    text += parts[(random >> 16) % parts.size()];
  }
  return text;
}

TEST_F(TextTest, BatchesAreTheSameHoweverTheyComeToBe) {
  const fs::path text = file("text.txt", a_text());
  const auto in_memory = model::tokens_of_text(text, vocabulary, folder_ / "cache");
  const auto in_file = model::tokens_of_text(text, vocabulary, folder_ / "cache", model::Keep::in_file);
  EXPECT_TRUE(in_file.tokens.empty());
  EXPECT_EQ(in_file.size(), in_memory.size());
  EXPECT_EQ(in_file.sha256, in_memory.sha256);
  constexpr int64_t B = 3, T = 17;
  const auto windows = static_cast<int64_t>((in_memory.size() - 1) / (B * T));
  for (const uint64_t seed : {0, 1, 2, 3}) {
    for (const model::Batches batches : {model::Batches::tokenized, model::Batches::read, model::Batches::mapped,
                                         model::Batches::preloaded, model::Batches::prefetched}) {
      SCOPED_TRACE(std::string(model::name_of(batches)) + ", seed " + std::to_string(seed));
      const model::Windows kind = seed == 3 ? random_windows : consecutive;
      model::BatchLoader plain(in_memory, B, T, seed, model::Batches::gather, {}, kind);
      model::BatchLoader other(model::kept_for(batches) == model::Keep::in_file ? in_file : in_memory, B, T, seed,
                               batches, {}, kind);
      for (int64_t i = 0; i < 2 * windows + 1; ++i) {  // to the end, from the beginning on, and once more
        const auto expected = plain.next(), batch = other.next();
        ASSERT_TRUE(batch.first.equal(expected.first) && batch.second.equal(expected.second)) << "batch " << i;
      }
      const int64_t made = 2 * windows + 1;
      const model::BatchWork work = other.work();
      EXPECT_EQ(work.copies, batches == model::Batches::prefetched ? 2 * made : B * made);
      EXPECT_EQ(work.tokenized > 0, batches == model::Batches::tokenized);
      EXPECT_EQ(work.reads > 0, batches == model::Batches::tokenized || batches == model::Batches::read);
      if (batches == model::Batches::read) {
        EXPECT_EQ(work.reads, B * made);
        EXPECT_EQ(work.bytes_read, 2 * (T + 1) * B * made);
      }
      EXPECT_EQ(other.made_by(), ::gettid());
    }
  }
}

TEST_F(TextTest, ATextIsTokenizedFromAnyPlace) {
  std::string long_text;
  while (long_text.size() < 400000) long_text += a_text();
  const fs::path text = file("text.txt", long_text);
  const auto stream = model::tokens_of_text(text, vocabulary, folder_ / "cache");
  ASSERT_GT(stream.size(), model::TokenizedText::places_apart) << "one place is not enough for this test";
  model::TokenizedText tokenized(text, vocabulary, stream.file);
  const std::vector<size_t> positions = {
      0, 65536, 65535, 1, 70000, 70003, 65537, stream.size() - 5, 131071 % (stream.size() - 5)};
  for (const size_t position : positions) {
    const auto tokens = tokenized.at(position, 5);
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), stream.tokens.begin() + static_cast<std::ptrdiff_t>(position)))
        << position;
  }
}

TEST_F(TextTest, PartsOfATextHaveTheTokensOfTheWhole) {
  const auto tokenizer = model::Tokenizer::load(vocabulary);
  const std::string whole = a_text();
  const auto expected = tokenizer.encode(whole);
  model::TextFile text(file("text.txt", whole));
  for (const size_t least : {1, 7, 64, 1000}) {
    std::vector<uint16_t> tokens;
    std::string part;
    for (uint64_t begin = 0; begin < text.size(); begin += part.size()) {
      part = text.part(begin, least);
      ASSERT_GE(part.size(), std::min<size_t>(least, whole.size() - begin));
      ASSERT_EQ(text.cut_before(begin), begin) << "a part begins at a cut";
      const auto more = tokenizer.encode(part);
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
    EXPECT_EQ(tokens, expected) << least;
  }
}

TEST_F(DataTest, FilesThatChangedAreRefused) {
  const std::string tokens("\x01\x00\x02\x00\x03\x00\x04\x00\x05\x00\x06\x00\x07\x00", 14);
  const std::string whole = token_file(20240520, 1, 7, tokens);
  const auto refused = [&](const model::TokenStream& stream, model::Batches batches) {
    return refusal_of([&] { return model::BatchLoader(stream, 2, 3, 0, batches).next(); });
  };
  for (const model::Batches batches : {model::Batches::read, model::Batches::mapped}) {
    const auto stream = model::load_tokens(file("tokens.bin", whole), 50257, model::Keep::in_file);
    EXPECT_EQ(refused(stream, batches), "accepted");
    fs::resize_file(stream.file, whole.size() - 2);
    EXPECT_EQ(refused(stream, batches),
              stream.file.string() + ": the file has changed: it had 1038 bytes, and has 1036");
    fs::remove(stream.file);
    EXPECT_NE(refused(stream, batches).find("No such file"), std::string::npos);
  }
  // Shorter in the middle of a training.
  const auto stream = model::load_tokens(file("tokens.bin", whole), 50257, model::Keep::in_file);
  model::BatchLoader loader(stream, 2, 3, 0, model::Batches::read);
  (void)loader.next();
  fs::resize_file(stream.file, 1024 + 8);
  EXPECT_THROW((void)loader.next(), std::invalid_argument);
}

TEST_F(TextTest, TokensOfAnotherTextAreRefused) {
  const fs::path text = file("text.txt", "to be, or not to be");
  auto stream = model::tokens_of_text(text, vocabulary, folder_ / "cache", model::Keep::in_file);
  EXPECT_NO_THROW(model::BatchLoader(stream, 1, 2, 0, model::Batches::tokenized));
  for (const char* other : {"to be, or not to bee", "to be, or not to b", "2 be, or not to be", ""}) {
    stream.text = file("other.txt", other);
    const std::string said = refusal_of([&] { model::BatchLoader(stream, 1, 2, 0, model::Batches::tokenized); });
    EXPECT_NE(said.find("its tokens are not those of " + stream.text.string()), std::string::npos) << said;
  }
  stream.text = text;
  stream.vocabulary = folder_ / "absent";
  EXPECT_THROW(model::BatchLoader(stream, 1, 2, 0, model::Batches::tokenized), std::invalid_argument);
}

TEST_F(DataTest, ATextIsRepeatedInWholeCopies) {
  const fs::path text = file("play.txt", "Exit.\n");  // 6 bytes
  const fs::path cache = folder_ / "new" / "texts";
  EXPECT_EQ(model::repeated_text(text, 6, cache), text) << "it is large enough";
  EXPECT_FALSE(fs::exists(cache));
  const fs::path repeated = model::repeated_text(text, 13, cache);
  EXPECT_EQ(repeated.parent_path(), cache);
  EXPECT_EQ(repeated.filename().string().find("play-3-times-"), 0U) << repeated;
  EXPECT_EQ(files::read_file(repeated), "Exit.\nExit.\nExit.\n");
  const auto written = fs::last_write_time(repeated) - std::chrono::hours(1);
  fs::last_write_time(repeated, written);
  EXPECT_EQ(model::repeated_text(text, 18, cache), repeated);
  EXPECT_EQ(fs::last_write_time(repeated), written) << "was written a second time";
  fs::resize_file(repeated, 7);
  EXPECT_EQ(files::read_file(model::repeated_text(text, 18, cache)).size(), 18U);
  EXPECT_EQ(std::distance(fs::directory_iterator(cache), {}), 1);
  EXPECT_THROW((void)model::repeated_text(file("empty.txt", ""), 10, cache), std::invalid_argument);
  EXPECT_THROW((void)model::repeated_text(folder_ / "absent", 10, cache), std::invalid_argument);
}

TEST(BatchLoaderTest, RefusesWhatDoesNotFit) {
  const auto stream = counting(6);
  EXPECT_NO_THROW(model::BatchLoader(stream, 1, 5, 3));
  EXPECT_THROW(model::BatchLoader(stream, 0, 3, 0), std::invalid_argument);
  EXPECT_THROW(model::BatchLoader(stream, 1, -3, 0), std::invalid_argument);
  EXPECT_THROW(model::BatchLoader(stream, int64_t{1} << 62, int64_t{1} << 62, 0), std::invalid_argument);
  for (const size_t count : {size_t{0}, size_t{6}}) {
    const auto few = counting(count);
    EXPECT_EQ(refusal_of([&] { model::BatchLoader(few, 2, 3, 0); }),
              "test: " + std::to_string(count) + " tokens; a batch of 2 x 3 needs 2 x 3 + 1");
  }
}

// ---- Batches that a thread makes: the same ones, one step ahead, and its errors are told

TEST(Inputs, PrefetchedBatchesAreThoseOfTheLoader) {
  const model::TokenStream stream = counting(100);
  for (const int64_t micro_steps : {1, 3}) {
    for (const uint64_t seed : {0, 5}) {
      const model::Windows windows = seed == 5 ? random_windows : consecutive;
      model::Inputs plain(stream, 2, 3, micro_steps, 40, seed, at::kCPU, model::Batches::gather, 0, {}, windows);
      model::Inputs ahead(stream, 2, 3, micro_steps, 40, seed, at::kCPU, model::Batches::prefetched, 0, {}, windows);
      model::BatchLoader loader(stream, 2, 3, seed, model::Batches::gather, {}, windows);
      for (int step = 0; step < 40; ++step) {  // around the end of the text, more than once
        plain.advance();
        ahead.advance();
        const at::Tensor batch = ahead.batch().clone();
        ASSERT_TRUE(batch.equal(plain.batch())) << "step " << step;
        for (int64_t i = 0; i < micro_steps; ++i) {
          const auto [inputs, targets] = loader.next();
          ASSERT_TRUE(batch[i][0].equal(inputs) && batch[i][1].equal(targets)) << "step " << step;
        }
        // A step works on its batch while the next one is made.
        std::this_thread::sleep_for(std::chrono::microseconds(step % 3 * 50));
        ASSERT_TRUE(ahead.batch().equal(batch)) << "step " << step;
      }
      EXPECT_EQ(ahead.work().steps, 40);
      EXPECT_EQ(ahead.work().by_a_thread, 40);
      EXPECT_EQ(ahead.work().ready, 40);
      EXPECT_EQ(ahead.work().work.copies, 2 * micro_steps * 40);
      EXPECT_EQ(plain.work().by_a_thread, 0);
      EXPECT_EQ(plain.work().ready, 0);
    }
  }
}

int64_t threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

// A thread that has been joined stays in the kernel's list for a moment, so look until `is_so` or for two seconds.
bool soon(const std::function<bool()>& is_so) {
  for (int i = 0; i < 200 && !is_so(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return is_so();
}

TEST(Inputs, OfATrainingThatEndsEarlyLeaveNoThread) {
  const model::TokenStream stream = counting(100);
  int64_t before = threads();
  ASSERT_TRUE(soon([&] { return std::exchange(before, threads()) == before; }));
  for (int i = 0; i < 20; ++i) {
    std::optional<model::Inputs> inputs;
    inputs.emplace(stream, 2, 3, 1, 10, 0, at::kCPU, model::Batches::prefetched);
    EXPECT_GT(threads(), before);
    if (i % 2 == 0) inputs->advance();
  }
  EXPECT_TRUE(soon([&] { return threads() <= before; }));
}

TEST(Prefetcher, TellsAnErrorWhenItsTensorIsAskedFor) {
  int calls = 0;
  model::Prefetcher prefetcher([&](const at::Tensor& tensor) {
    if (++calls == 2) throw std::invalid_argument("the file ended early");
    tensor.fill_(calls);
  });
  const at::Tensor tensor = at::zeros({2}, at::kLong);
  prefetcher.begin(tensor);
  (void)prefetcher.take();
  EXPECT_EQ(tensor[0].item<int64_t>(), 1);
  prefetcher.begin(tensor);
  EXPECT_THROW((void)prefetcher.take(), std::invalid_argument);
  prefetcher.begin(tensor);  // and goes on
  EXPECT_NO_THROW((void)prefetcher.take());
  EXPECT_EQ(tensor[0].item<int64_t>(), 3);
}

TEST(Prefetcher, WaitsForItsThreadEvenIfNobodyTakesWhatItMakes) {
  std::atomic<bool> filled = false;
  {
    model::Prefetcher prefetcher([&](const at::Tensor&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      filled = true;
      throw std::runtime_error("that nobody asks for");
    });
    prefetcher.begin(at::zeros({1}));
  }
  EXPECT_TRUE(filled);
}

TEST(Prefetcher, RefusesToBeAskedInAnotherOrder) {
  model::Prefetcher prefetcher([](const at::Tensor&) {});
  EXPECT_THROW((void)prefetcher.take(), std::logic_error);
  prefetcher.begin(at::zeros({1}));
  EXPECT_THROW(prefetcher.begin(at::zeros({1})), std::logic_error);
}

}  // namespace data_test
