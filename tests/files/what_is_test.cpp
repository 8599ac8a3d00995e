// What files are by their first bytes.
#include "files/what_is.h"

#include "files/files.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace what_is_test {

using namespace std::string_literals;

TEST(WhatIs, TokensWithoutAHeaderAreNoText) {
  const auto refusal = [](std::string_view bytes, std::string_view wanted) -> std::string {
    const files::TemporaryFolder folder("what-is");
    files::write_file(folder.path() / "raw", bytes);
    try {
      files::refuse_other(folder.path() / "raw", wanted);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  const std::string tokens = "\x06\x01\x0b\0\x0d\0\x22\x01\x50\xc4\x06\x01\x1c\x01"s;
  EXPECT_NE(refusal(tokens, files::text_file).find("is probably uint16 tokens without a header, not a UTF-8 text"),
            std::string::npos);
  EXPECT_EQ(refusal(tokens, files::safetensors_file), "");
  EXPECT_EQ(refusal("caf\xe9 \xe0 la cr\xe8me, in Latin-1", files::text_file), "");
  EXPECT_EQ(refusal("a text\twith tabs\r\nand \x1b[1m an escape", files::text_file), "");
  EXPECT_EQ(refusal("\x01\xff\x02\xff\x03\xff\x04\xff", files::text_file), "");  // larger than any token
  EXPECT_EQ(refusal("", files::text_file), "");
  EXPECT_EQ(refusal("<!doctype html>", files::text_file), "");  // a text like others
  EXPECT_NE(refusal("<!doctype html>", files::vocabulary_file), "");
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
  try {
    files::refuse_other(file, files::text_file);
    ADD_FAILURE() << "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(error.what(), file.string() + ": is a token file, not a UTF-8 text: --data reads it as it is");
  }
  EXPECT_TRUE(files::is_token_file(file));
  EXPECT_TRUE(files::is_token_file("absent.bin"));
  EXPECT_FALSE(files::is_token_file("absent.txt"));
  EXPECT_FALSE(files::is_token_file(temporary.path()));
}

}  // namespace what_is_test
