// What files are by their first bytes.
#include "files/what_is.h"

#include "files/files.h"
#include "files/nearest.h"
#include "files/sha256.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace what_is_test {

using namespace std::string_literals;

TEST(WhatIs, TokensWithoutAHeaderAreNoText) {
  const auto refusal = [](std::string_view bytes, std::string_view wanted) {
    const files::TemporaryFolder folder("what-is");
    files::write_file(folder.path() / "raw", bytes);
    return refusal_of([&] { files::refuse_other(folder.path() / "raw", wanted); });
  };
  const std::string tokens = "\x06\x01\x0b\0\x0d\0\x22\x01\x50\xc4\x06\x01\x1c\x01"s;
  EXPECT_NE(refusal(tokens, files::text_file).find("is probably uint16 tokens without a header, not a UTF-8 text"),
            std::string::npos);
  EXPECT_EQ(refusal(tokens, files::safetensors_file), "accepted");
  for (const char* text : {"caf\xe9 \xe0 la cr\xe8me, in Latin-1", "a text\twith tabs\r\nand \x1b[1m an escape",
                           "\x01\xff\x02\xff\x03\xff\x04\xff",  // larger than any token
                           "", "<!doctype html>"}) {
    EXPECT_EQ(refusal(text, files::text_file), "accepted") << text;
  }
  EXPECT_NE(refusal("<!doctype html>", files::vocabulary_file), "accepted");
}

TEST(WhatIs, KnowsFilesByTheirFirstBytes) {
  const std::pair<std::string, std::string> known[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "a Git LFS pointer"},
      {"PK\x03\x04\x14\0\0\0"s, "a zip archive, as torch.save writes it"},
      {"\x80\x02}q\0"s, "a pickle, as torch.save writes it"},
      {"\x1f\x8b\x08\0\0\0\0\0"s, "compressed by gzip"},
      {"\x28\xb5\x2f\xfd\x04", "compressed by zstd"},
      {"\x93NUMPY\x01\0"s, "a NumPy array"},
      {"\xff\xfeH\0"s, "a text in UTF-16"},
      {"\xff\xfe\0\0H\0\0\0"s, "a text in UTF-32"},
      {"t\0o\0 \0b\0e\0 \0o\0r\0"s, "a text in UTF-16"},
      {"\0t\0o\0 \0b\0e\0 \0o\0r"s, "a text in UTF-16"},
      {"\x88\xd8\x34\x01\x01\0\0\0"s, "a token file"},
      {"\xa1\xd9\x34\x01\x07\0\0\0"s, "a token file of Llama 3"},
      {"\xc6\xd7\x34\x01\x03\0\0\0"s, "weights of llm.c"},
      {"\x8a\xd8\x34\x01\x01\0\0\0"s, "multiple-choice questions of llm.c"},
      {"\n<!DOCTYPE html><html>", "a page of a web site"},
      {"\xef\xbb\xbf<HTML lang=en>", "a page of a web site"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied", "a page of a web site"},
      {"\x10\x02\0\0\0\0\0\0{\"a\""s, "a safetensors file"},
      {R"({"metadata": {}, "weight_map": {}})", "the index of weights in several files"},
      {R"({"!": 0, "\"": 1)", "Hugging Face's vocab.json"},
  };
  for (const auto& [bytes, name] : known) {
    EXPECT_EQ(files::what_is(bytes).name, name);
    EXPECT_FALSE(files::what_is(bytes).remedy.empty()) << name;
  }
  for (const std::string& text : {""s, "To be"s, "\xef\xbb\xbfTo be"s, "{\"kind\": \"record\"}"s,
                                  "a\0b\0 then no more"s, "version 2"s, "#version: 0.2\n"s, "\x07\0\x07\0"s}) {
    EXPECT_EQ(files::what_is(text).name, "");
  }
}

TEST(WhatIs, RefusesOnlyWhatIsSomethingElse) {
  const files::TemporaryFolder temporary("what-is-test");
  const auto file = temporary.path() / "shard";
  files::write_file(file, "\x88\xd8\x34\x01 tokens");
  EXPECT_NO_THROW(files::refuse_other(file, files::token_file));
  EXPECT_EQ(refusal_of([&] { files::refuse_other(file, files::text_file); }),
            file.string() + ": is a token file, not a UTF-8 text: --data reads it as it is");
  EXPECT_TRUE(files::is_token_file(file));
  EXPECT_TRUE(files::is_token_file("absent.bin"));
  EXPECT_FALSE(files::is_token_file("absent.txt"));
  EXPECT_FALSE(files::is_token_file(temporary.path()));
}

}  // namespace what_is_test

namespace nearest_test {

using files::nearest;
using Names = std::vector<std::string>;

TEST(Nearest, NamesComeInTheOrderOfTheirDistance) {
  const Names commands = {"ablate", "run", "report", "gate"},
              flags = {"--base", "--batch", "--repeats", "--seed", "--steps"};
  const std::tuple<const char*, Names, Names> asked[] = {
      {"abalte", commands, {"ablate", "gate"}},                       // 2, 3
      {"repor", commands, {"report"}},                                // 1
      {"gates", {"rates", "gate", "gat"}, {"gate", "rates", "gat"}},  // 1, 1, 2
      {"qqqqqq", {"ablate", "report"}, {}},                           // hardly a letter in common
      {"warp", {"start", "memory", "flash"}, {}},                     // 3 of 4 letters
      {"run", {}, {}},
      {"--wait", {"--clip", "--data"}, {}},                                           // dashes are no letters
      {"Flash", {"FLASH", "vocab"}, {"FLASH"}},                                       // nor does their case matter
      {"a0", {"a6", "a5", "a4", "a3", "a2", "a1"}, {"a1", "a2", "a3", "a4", "a5"}}};  // five are enough
  for (const auto& [name, names, expected] : asked) EXPECT_EQ(nearest(name, names), expected) << name;
  EXPECT_EQ(nearest("GTP2", {"gpt2", "gpt2-cpu", "tiny"}).front(), "gpt2");
  for (const auto& [name, first] :
       {std::pair{"--batch-size", "--batch"}, {"--reps", "--repeats"}, {"--step", "--steps"}, {"--sed", "--seed"}}) {
    EXPECT_EQ(nearest(name, flags).front(), first);
  }
}

}  // namespace nearest_test

namespace sha256_test {

// SHA-256 against the examples of FIPS 180.

TEST(Sha256, MatchesTheExamplesOfFips180) {
  EXPECT_EQ(files::sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(files::sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(files::sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(files::sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesOfAnySizeGiveTheSameDigestWithAndWithoutTheProcessorsInstructions) {
  for (size_t total = 0; total < 200; ++total) {
    std::string bytes(total, 'x');
    for (size_t i = 0; i < total; ++i) bytes[i] = static_cast<char>(i * 37);
    files::Sha256 plain(/*plain=*/true);
    plain.update(bytes);
    EXPECT_EQ(plain.hex(), files::sha256_hex(bytes)) << total;
    files::Sha256 pieces;
    for (size_t start = 0; start < total; start += 7) {
      pieces.update(std::string_view(bytes).substr(start, 7));
      (void)pieces.hex();  // must not disturb what follows
    }
    EXPECT_EQ(pieces.hex(), files::sha256_hex(bytes)) << total;
  }
}

}  // namespace sha256_test
