#include "text/text.h"

#include "files/printable.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace text {

using files::length;

namespace {

std::string grouped(int64_t value) {
  std::string digits = std::to_string(value);
  for (auto i = static_cast<int64_t>(digits.size()) - 3; i > 0; i -= 3) digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

}  // namespace

size_t columns() {
  static const size_t width = [] {
    winsize size{};
    const bool is_terminal = isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    return is_terminal && size.ws_col > 0 ? std::clamp<size_t>(size.ws_col, 60, 140) : size_t{80};
  }();
  return width;
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

std::string capitalized(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string wrapped(const std::string& text, const std::string& indent) {
  std::string result, line;
  bool first = true;  // of the text's words; before it there is no blank
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    std::string_view word = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (!first && length(line) + 1 + length(word) > columns()) {
      result += line + "\n";
      line = indent;
    } else if (!first) {
      line += ' ';
    }
    first = false;
    for (size_t room = columns() - length(line); length(word) > room;
         room = columns() - indent.size()) {  // a long path
      const std::string_view part = files::begin_of(word, room);
      result.append(line).append(part).append("\n");
      line = indent;
      word.remove_prefix(part.size());
    }
    line += word;
  }
  return result + line + "\n";
}

std::string number(double value) {
  if (value >= 1e15) return fmt::format("{:.3g}", value);
  if (value >= 99.95) return grouped(static_cast<int64_t>(std::llround(value)));
  if (value >= 9.995) return fmt::format("{:.1f}", value);
  if (value >= 1e-6 && value < 0.0095) return fmt::format("{:.2g}", value);
  return fmt::format("{:.2f}", value);
}

}  // namespace text
