// What a terminal gets to see of a text, and where a text may be cut.
#include "files/printable.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace printable_test {

using files::length;
using files::printable;
using files::shortened;

TEST(Printable, LeavesTextAndSpellsOutWhatATerminalActsOn) {
  const std::string family = "\U0001f468\u200d\U0001f469\u200d\U0001f467", heart = "\u2764\ufe0f\u200d\U0001f525";
  for (const std::string text : {"", "plain, <b>|`\\", "\u00e9\u00d7 \u4e2d\u6587 \U0001f600", "\xf0\x9f\x98\x80",
                                 family.c_str(), heart.c_str()}) {
    EXPECT_EQ(printable(text), text);
  }
  const std::pair<std::string, const char*> others[] = {
      {"a\u200db\u200d\U0001f469\u200d", "a\\u{200d}b\\u{200d}\U0001f469\\u{200d}"},
      {"\x1b[31mred\x07\x7f", "\\x1b[31mred\\x07\\x7f"},
      {std::string("a\0b", 3), "a\\x00b"},
      {"a\r\n\tb", "a   b"},
      {"\u009b1m", "\\u{009b}1m"},
      {"\u202e\u2066\u200b\u2028\ufeff\u00ad\u061c", "\\u{202e}\\u{2066}\\u{200b}\\u{2028}\\u{feff}\\u{00ad}\\u{061c}"},
      {"\U000e0041", "\\u{e0041}"},
      // What is no valid UTF-8: longer than need be, a surrogate, above U+10FFFF, cut short.
      {"\xff\xc3", "\\xff\\xc3"},
      {"\xc0\x80", "\\xc0\\x80"},
      {"\xe0\x80\x80", "\\xe0\\x80\\x80"},
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
      {"\xe4\xb8"
       "x",
       "\\xe4\\xb8x"}};
  for (const auto& [text, shown] : others) EXPECT_EQ(printable(text), shown);
  for (int c = 0; c < 0xa0; c = c == 0x1f ? 0x7f : c + 1) {  // every control character
    const auto byte = static_cast<char>(c);
    const std::string control = c < 0x80 ? std::string(1, byte) : std::string{'\xc2', byte};
    EXPECT_EQ(printable(control).find(control), std::string::npos) << c;
  }
}

TEST(PrintableLines, KeepsLinesAndSpellsOutTheRest) {
  EXPECT_EQ(files::printable_lines("a\n\tb\r\n\x1b[31m\u202e\xff \u00e9"), "a\n\tb \n\\x1b[31m\\u{202e}\\xff \u00e9");
  EXPECT_EQ(files::valid_utf8("a\n\x1b \xff\u00e9 \xf0\x9f\x98"), "a\n\x1b \ufffd\u00e9 \ufffd\ufffd\ufffd");
  EXPECT_EQ(files::printable_lines("cut \xf0\x9f\x98"), "cut \\xf0\\x9f\\x98");
}

// However a text is cut, each piece that is shown is whole characters, and together they are the text.
TEST(PrintableLines, ShowsACharacterWhenItIsComplete) {
  const std::string text = "x\u00e9\u4e2d\U0001f600\n\x1b\xc3(\xe4\xb8\xf0\x9f\x98\xff\xf5\u00e9";
  const std::string whole = files::printable_lines(text);
  for (size_t step = 1; step < 6; ++step) {
    files::PrintableLines lines;
    std::string shown;
    for (size_t i = 0; i < text.size(); i += step) {
      const std::string piece = lines.next(std::string_view(text).substr(i, step));
      EXPECT_EQ(piece, files::printable_lines(piece)) << "not whole characters";
      shown += piece;
    }
    EXPECT_EQ(shown + lines.end(), whole) << step;
  }
  files::PrintableLines lines;
  EXPECT_EQ(lines.next("\xf0\x9f"), "");
  EXPECT_EQ(lines.next("\x98\x80!"), "\U0001f600!");  // at once
  EXPECT_EQ(lines.next("\xff"), "\\xff");             // no character begins so
  EXPECT_EQ(lines.end(), "");
}

TEST(Shortened, NeverCutsACharacter) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdefg", 6), "abc...");
  EXPECT_EQ(shortened("\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9", 6), "\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9");
  EXPECT_EQ(shortened("\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9", 6), "\u00e9\u00e9\u00e9...");
  EXPECT_EQ(shortened("\u4e2d\u4e2d\u4e2d\u4e2d", 7), "\u4e2d\u4e2d...");  // wide ones take two columns
  EXPECT_EQ(length("\u00e9\u4e2d\U0001f600x"), 6U);
}

}  // namespace printable_test
