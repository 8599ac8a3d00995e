// What a terminal gets to see of a text, and where a text may be cut.
#include "files/printable.h"

#include <gtest/gtest.h>

#include <string>

namespace {

using files::length;
using files::printable;
using files::shortened;

TEST(Printable, LeavesTextAsItIs) {
  for (const std::string text : {"", "plain, <b>|`\\", "\u00e9\u00d7 \u4e2d\u6587 \U0001f600"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, SpellsOutWhatATerminalActsOn) {
  EXPECT_EQ(printable("\x1b[31mred\x07\x7f"), "\\x1b[31mred\\x07\\x7f");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("a\r\n\tb"), "a   b");
  EXPECT_EQ(printable("\u009b1m"), "\\u{009b}1m");
  EXPECT_EQ(printable("\u202e\u2066\u200b\u2028\ufeff\u00ad\u061c"),
            "\\u{202e}\\u{2066}\\u{200b}\\u{2028}\\u{feff}\\u{00ad}\\u{061c}");
  EXPECT_EQ(printable("\U000e0041"), "\\u{e0041}");
}

TEST(Printable, MakesValidUtf8OfAnyBytes) {
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc0\x80"), "\\xc0\\x80");                    // longer than need be
  EXPECT_EQ(printable("\xe0\x80\x80"), "\\xe0\\x80\\x80");           // the same
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
  EXPECT_EQ(printable("\xe4\xb8"
                      "x"),
            "\\xe4\\xb8x");  // cut short
  EXPECT_EQ(printable("\xf0\x9f\x98\x80"), "\xf0\x9f\x98\x80");
}

TEST(Shortened, NeverCutsACharacter) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdefg", 6), "abc...");
  EXPECT_EQ(shortened("\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9", 6), "\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9");
  EXPECT_EQ(shortened("\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9", 6), "\u00e9\u00e9\u00e9...");
  EXPECT_EQ(length("\u00e9\u4e2d\U0001f600x"), 4U);
}

}  // namespace
