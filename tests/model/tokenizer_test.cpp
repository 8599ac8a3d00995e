// Tokenizer against ids known from OpenAI's encoder, both vocabulary formats, and the refusals.
// Comparison with tiktoken on large and nasty texts is test_tokenizer.py's. LADDER_TEST_VOCAB names gpt2.tiktoken,
// LADDER_TEST_SHARED a folder with tinyshakespeare.txt and gpt2/vocab.bpe.
#include "model/tokenizer.h"

#include "files/files.h"
#include "model/data.h"
#include "tests/refusal.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace tokenizer_test {

using Ids = std::vector<uint16_t>;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class TokenizerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (variable("LADDER_TEST_VOCAB").empty()) GTEST_SKIP() << "LADDER_TEST_VOCAB is not set";
  }

  static const model::Tokenizer& tokenizer() {
    static const model::Tokenizer loaded = model::Tokenizer::load(variable("LADDER_TEST_VOCAB"));
    return loaded;
  }

  // The message with which a vocabulary file of these contents is refused.
  std::string refusal(const std::string& contents) {
    std::ofstream(scratch_, std::ios::binary) << contents;
    return refusal_of([&] { return model::Tokenizer::load(scratch_); });
  }

  const files::TemporaryFolder temporary_{"tokenizer-test"};
  const std::filesystem::path scratch_ = temporary_.path() / "scratch";
};

TEST_F(TokenizerTest, GivesTheIdsOfOpenAisEncoder) {
  EXPECT_EQ(tokenizer().size(), 50257);
  EXPECT_EQ(tokenizer().encode("Hello, I'm a language model,"), (Ids{15496, 11, 314, 1101, 257, 3303, 2746, 11}));
  EXPECT_EQ(tokenizer().encode(""), Ids{});
  EXPECT_EQ(tokenizer().encode("hello world"), (Ids{31373, 995}));
  EXPECT_EQ(tokenizer().encode("\n\n\na"), (Ids{628, 198, 64}));  // the last white space stays with what follows
  EXPECT_EQ(tokenizer().encode("a  b"), (Ids{64, 220, 275}));
}

TEST_F(TokenizerTest, MarksOfDocumentsBecomeEndOfTextIfAsked) {
  const auto encode = [](const std::string& text) { return tokenizer().encode(text, 0, model::Marks::end_of_text); };
  const uint16_t end = model::Tokenizer::end_of_text;
  EXPECT_EQ(encode("<|endoftext|>"), Ids{end});
  EXPECT_EQ(tokenizer().encode("<|endoftext|>"), (Ids{27, 91, 437, 1659, 5239, 91, 29}));
  EXPECT_EQ(tokenizer().decode(Ids{end}), "<|endoftext|>");
  EXPECT_EQ(encode("hello<|endoftext|><|endoftext|> world\n\n<|endoftext|>"), (Ids{31373, end, end, 995, 628, end}));
  EXPECT_EQ(encode("<|endoftext"), tokenizer().encode("<|endoftext"));
  EXPECT_EQ(model::marks_in("<|endoftext|>a<|endoftext|><|endoftext|"), 2);
  EXPECT_EQ(refusal_of([] { return tokenizer().encode("<|endoftext|>a\xff", 100, model::Marks::end_of_text); }),
            "invalid UTF-8 at byte 114; text must be UTF-8");
}

TEST_F(TokenizerTest, LongPiecesTakeNoQuadraticTime) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(tokenizer().encode(std::string(1'000'000, 'a')).size(), 250'000U);  // "aaaa" is a token
  EXPECT_EQ(tokenizer().encode(std::string(1'000'000, ' ')).size(), 1'000'000U);
  const std::string mixed = tokenizer().decode(tokenizer().encode(std::string(999'999, '\'') + "s"));
  EXPECT_EQ(mixed.size(), 1'000'000U);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));  // seconds even under a sanitizer
}

TEST_F(TokenizerTest, InvalidUtf8IsRefusedWithItsOffset) {
  for (const std::string bad : {"\x80", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"}) {
    EXPECT_EQ(refusal_of([&] { return tokenizer().encode("four" + bad + "x"); }),
              "invalid UTF-8 at byte 4; text must be UTF-8");
  }
}

TEST_F(TokenizerTest, DecodeRefusesUnknownIds) {
  EXPECT_THROW((void)tokenizer().decode(Ids{1, 50257}), std::invalid_argument);
}

TEST_F(TokenizerTest, OpenAisMergeListGivesTheSameIds) {
  const std::string shared = variable("LADDER_TEST_SHARED");
  if (shared.empty()) GTEST_SKIP() << "LADDER_TEST_SHARED is not set";
  const auto merges = model::Tokenizer::load(std::filesystem::path(shared) / "gpt2/vocab.bpe");
  ASSERT_EQ(merges.size(), tokenizer().size());
  for (int64_t i = 0; i < merges.size(); ++i) {
    const auto id = static_cast<uint16_t>(i);
    ASSERT_EQ(merges.decode(Ids{id}), tokenizer().decode(Ids{id})) << "token " << id;
  }
  const std::string text = files::read_file(std::filesystem::path(shared) / "tinyshakespeare.txt");
  const Ids ids = merges.encode(text);
  EXPECT_EQ(ids.size(), 338025U);  // as nanoGPT's data/shakespeare counts it: 301966 + 36059
  EXPECT_EQ(ids, tokenizer().encode(text));
}

TEST_F(TokenizerTest, RefusesVocabulariesThatAreNotGpt2s) {
  const std::string good = files::read_file(variable("LADDER_TEST_VOCAB"));
  const std::string file = scratch_.string();
  EXPECT_EQ(refusal(good), "accepted");
  std::string with_cr;
  for (const char c : good) with_cr += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(refusal("\xef\xbb\xbf" + with_cr + "\r\n\n"), "accepted");
  EXPECT_EQ(refusal(""), file + ": line 0: the file ends after 0 ranks; 50256 are needed");
  EXPECT_EQ(refusal(good + "IQ== 0\n"), file + ": line 50257: rank 0 appears a second time");
  EXPECT_EQ(refusal(good + "IQ== 50256\n"), file + ": line 50257: ranks must be between 0 and 50255, got 50256");
  EXPECT_EQ(refusal(good.substr(0, good.rfind('\n', good.size() - 2) + 1)),
            file + ": line 50255: the file ends after 50255 ranks; 50256 are needed");
  EXPECT_TRUE(refusal(good.substr(0, good.size() / 2)).starts_with(file + ": line "));
  EXPECT_EQ(refusal("IQ== 0\nIQ== 1\n"), file + ": line 2: token \"!\" has a second rank");
  for (const std::string line :
       {"IQ==", "IQ== ", "IQ== 1x", "IQ== -1", "IQ= 1", "I=Q= 1", " 1", "IQ== 1 ", "= 1", "*"}) {
    const std::string message = refusal(fmt::format("IQ== 0\n{}\n", line));
    EXPECT_TRUE(message.starts_with(file + ": line 2: ") && message.find(fmt::format("got \"{}", line)) != message.npos)
        << message;
  }
  const std::string merge = refusal("#version: 0.2\n\u0120 t\nxyz q\n"),
                    repeated = refusal("#version: 0.2\nh e\nh e\n");
  EXPECT_TRUE(merge.starts_with(file + ": line 3: a merge must be") && merge.ends_with("got \"xyz q\"")) << merge;
  EXPECT_TRUE(repeated.starts_with(file + ": line 3: each merge must give a new token, but \"h e\"")) << repeated;
  EXPECT_EQ(refusal("#version: 0.2\nh e\n"), file + ": line 2: the file ends after 1 merges; 50000 are needed");
  EXPECT_THROW(model::Tokenizer::load(file + ".absent"), std::invalid_argument);
  EXPECT_THROW(model::Tokenizer::load(testing::TempDir()), std::invalid_argument);
}

}  // namespace tokenizer_test
