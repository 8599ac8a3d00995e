// Text of strangers on a terminal. Whatever a name or message holds, it stays text and stays on its line. Escape
// sequences are one danger. A C1 control is one in a single character, and a right-to-left mark reverses the rest of
// the line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace files {

// `text` in one line of valid UTF-8. Line ends and tabs become blanks. Spells out what a terminal would act on. Control
// characters and bytes that are not UTF-8 become \xNN. Marks of direction, characters of no width, tags and what
// XML excludes become \u{NNNN}. In a job on GitHub "::" and "##[" are parted, which its runner would obey.
[[nodiscard]] std::string printable(std::string_view text);

// The same for a text that keeps its line ends and tabs. It comes in pieces that may end within a character.
class PrintableLines {
 public:
  // What the text has more to show with this piece. A character that is not complete yet waits for the next piece.
  [[nodiscard]] std::string next(std::string_view piece);
  // At the end of the text: the bytes of a character that never became complete.
  [[nodiscard]] std::string end();

 private:
  std::string waiting_;  // bytes of the text, at most three
  std::string shown_;    // the last of what was returned: what a command of GitHub's may begin with
};

// The same of a whole text.
[[nodiscard]] std::string printable_lines(std::string_view text);

// `text` with U+FFFD in place of each byte that is not UTF-8.
[[nodiscard]] std::string valid_utf8(std::string_view text);

// At most `columns` columns of `text`, the last three "..." where it is longer. Never a part of a character.
[[nodiscard]] std::string shortened(const std::string& text, size_t columns);

// As much of the beginning as fits into so many columns.
[[nodiscard]] std::string_view begin_of(std::string_view text, size_t columns);

// Columns of a UTF-8 text on a terminal, but for combining characters.
[[nodiscard]] size_t length(std::string_view text);

}  // namespace files
