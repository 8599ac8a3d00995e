// Text in tables and messages: as wide as the terminal, wrapped, numbers shortened.
#pragma once

#include "text/rooms.h"
#include "text/style.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace text {

// The width of tables and messages: the terminal's, from 60 to 140, or 80 without a terminal.
size_t columns();

// `text` broken at spaces into lines of at most columns(). Longer words are broken, too. Continuation lines begin with
// `indent`.
std::string wrapped(const std::string& text, const std::string& indent = "");

// With `by` in each place of `what`.
std::string replaced(std::string text, std::string_view what, std::string_view by);

// With a capital letter first.
std::string capitalized(std::string text);

double gib(auto bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

// "1,493" "61.2" "0.84": three significant digits or more.
std::string number(double value);

// Lists as flags take them, and as sentences name them.

// What to do with an item that is given twice: refuse it, or keep it twice (a rung that is measured beside itself).
enum class Repeats : uint8_t { refused, kept };

// "a,b,c" -> {"a", "b", "c"}. Throws std::invalid_argument for an empty item, and for one that is given twice, unless
// repeats are kept. The message begins with `where`.
std::vector<std::string> list_of(const std::string& text, const std::string& where, Repeats repeats = Repeats::refused);

// "a; b; c (and 2 more)": the first `most` items, cut at `width` together. Empty: there are none.
std::string first_of(const std::vector<std::string>& items, size_t most, size_t width = std::string::npos);

// Text for a page in Markdown.

// `text` as one line of a paragraph or a table's cell in which nothing is markup, not HTML either.
std::string markdown(std::string_view text);

// The same for our own words. In them `...` is code.
std::string markdown_with_code(std::string_view text);

}  // namespace text
