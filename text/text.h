// Text in tables and messages: as wide as the terminal, wrapped, numbers shortened.
#pragma once

#include "text/rooms.h"
#include "text/style.h"

#include <string>
#include <string_view>

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

}  // namespace text
