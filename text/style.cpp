#include "text/style.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <initializer_list>

namespace text {
namespace {

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool locale_is_utf8() {
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (locale.empty()) locale = variable(name);
  }
  std::erase(locale, '-');
  std::ranges::transform(locale, locale.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return locale.find("utf8") != std::string::npos;
}

Look look_of(int descriptor) {
  if (::isatty(descriptor) == 0) return {};
  return {.colour = variable("NO_COLOR").empty() && variable("TERM") != "dumb", .blocks = locale_is_utf8()};
}

constexpr std::array<const char*, 6> codes{"", "1", "2", "32", "33", "31"};  // SGR, in the order of Style

}  // namespace

std::string Look::painted(Style style, std::string_view text) const {
  if (!colour || style == Style::plain) return std::string(text);
  std::string result;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (!line.empty()) result += std::string("\x1b[") + codes[static_cast<size_t>(style)] + "m";
    result += line;
    if (!line.empty()) result += "\x1b[0m";
    if (line.size() < text.size()) result += '\n';
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return result;
}

std::string Look::painted(Style style, std::string_view text, size_t begin, size_t size) const {
  begin = std::min(begin, text.size());
  size = std::min(size, text.size() - begin);
  return std::string(text.substr(0, begin)) + painted(style, text.substr(begin, size)) +
         std::string(text.substr(begin + size));
}

std::string Look::bar(double share, size_t width) const {
  if (!(share > 0)) return std::string(width, ' ');
  const size_t parts = blocks ? 8 : 1, most = width * parts;
  const auto filled = std::clamp<size_t>(static_cast<size_t>(std::lround(std::min(share, 1.0) * most)), 1, most);
  std::string text;
  for (size_t i = 0; i < filled / parts; ++i) text += blocks ? "\u2588" : "#";
  size_t used = filled / parts;
  if (filled % parts > 0) {  // U+258F is one eighth, U+2589 seven
    text += "\xe2\x96";
    text += static_cast<char>(0x90 - filled % parts);
    ++used;
  }
  return text + std::string(width - used, ' ');
}

const Look& standard_output() {
  static const Look look = look_of(STDOUT_FILENO);
  return look;
}

const Look& standard_error() {
  static const Look look = look_of(STDERR_FILENO);
  return look;
}

Style style_of(std::string_view verdict) {
  using Words = std::initializer_list<std::string_view>;
  const auto is_one_of = [&](Words words) { return std::ranges::find(words, verdict) != words.end(); };
  if (is_one_of({"REGRESSION", "FAILED", "failed", "unproven", "void", "too high", "worse"})) return Style::bad;
  if (is_one_of({"INCONCLUSIVE", "NOT USABLE", "UNFIT", "SLOWER", "too low", "unclear", "too few seeds"}))
    return Style::caution;
  return is_one_of({"IMPROVEMENT", "SAME", "SAVED", "CALIBRATED", "faster", "proven", "good", "same quality"})
             ? Style::good
             : Style::plain;
}

}  // namespace text
