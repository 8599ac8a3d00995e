#include "text/text.h"

#include "files/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <span>
#include <stdexcept>

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

std::vector<std::string> list_of(const std::string& text, const std::string& where, Repeats repeats) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    if (item.empty()) throw std::invalid_argument(where + ": must be a list such as a,b,c, without empty items");
    if (repeats == Repeats::refused && std::ranges::find(items, item) != items.end()) {
      throw std::invalid_argument(fmt::format("{}: {} is given twice", where, item));
    }
    items.push_back(item);
    begin = end + 1;
  }
  return items;
}

std::string first_of(const std::vector<std::string>& items, size_t most, size_t width) {
  const auto named = std::span(items).first(std::min(items.size(), most));
  const std::string more =
      named.size() < items.size() ? fmt::format(" (and {} more)", items.size() - named.size()) : "";
  return files::shortened(fmt::format("{}", fmt::join(named, "; ")), width) + more;
}

std::string markdown(std::string_view text) {
  std::string escaped;
  for (const char c : files::printable(text)) {
    if (c == '<') {
      escaped += "&lt;";
      continue;
    }
    if (c == '&') {
      escaped += "&amp;";
      continue;
    }
    if (std::string_view("\\`*_{}[]#!|~@").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string markdown_with_code(std::string_view text) {
  std::string page;
  bool is_code = false;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('`', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    page += is_code ? "`" + std::string(part) + "`" : markdown(part);
    is_code = !is_code;
    begin = end + 1;
  }
  return page;
}

}  // namespace text
