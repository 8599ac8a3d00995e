#include "files/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <utility>

namespace files {
namespace {

// Unicode's format characters (general category Cf) and line separators, and what no XML holds.
constexpr std::array<std::pair<uint32_t, uint32_t>, 10> acted_on = {{{0x80, 0x9f},
                                                                     {0xad, 0xad},
                                                                     {0x61c, 0x61c},
                                                                     {0x180e, 0x180e},
                                                                     {0x200b, 0x200f},
                                                                     {0x2028, 0x202e},
                                                                     {0x2060, 0x206f},
                                                                     {0xfeff, 0xfeff},
                                                                     {0xfffe, 0xffff},
                                                                     {0xe0000, 0xe0fff}}};

bool is_acted_on(uint32_t code) {
  return std::ranges::any_of(acted_on, [&](const auto& range) { return code >= range.first && code <= range.second; });
}

// East Asian letters and emoji take two columns of a terminal. The ranges are those by which fmt pads a cell.
constexpr std::array<std::pair<uint32_t, uint32_t>, 13> wide = {{{0x1100, 0x115f},
                                                                 {0x2329, 0x232a},
                                                                 {0x2e80, 0x303e},
                                                                 {0x3040, 0xa4cf},
                                                                 {0xac00, 0xd7a3},
                                                                 {0xf900, 0xfaff},
                                                                 {0xfe10, 0xfe19},
                                                                 {0xfe30, 0xfe6f},
                                                                 {0xff00, 0xff60},
                                                                 {0xffe0, 0xffe6},
                                                                 {0x1f300, 0x1f64f},
                                                                 {0x1f900, 0x1f9ff},
                                                                 {0x20000, 0x3fffd}}};

size_t columns_of(uint32_t code) {
  return std::ranges::any_of(wide, [&](const auto& range) { return code >= range.first && code <= range.second; }) ? 2
                                                                                                                   : 1;
}

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: `text` does not begin with a character of UTF-8
};

// Bytes of a character that begins with this one; 0: none does.
size_t bytes_after(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  return lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
}

// The first character (Unicode, table 3-7: neither longer than need be, nor a surrogate, nor above U+10FFFF).
Character first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t bytes = bytes_after(lead);
  if (bytes == 1) return {lead, 1};
  if (bytes == 0 || text.size() < bytes) return {};
  uint32_t code = lead & (0xff >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if (!is_continuation(text[i])) return {};
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3f);
  }
  const uint32_t least = bytes == 4 ? 0x10000 : bytes == 3 ? 0x800 : 0x80;
  if (code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, bytes};
}

// A runner of GitHub takes a line that begins with "::", or holds "##[", for a command.
bool in_github() {
  static const char* const value = std::getenv("GITHUB_ACTIONS");
  return value != nullptr && std::string_view(value) == "true";
}

// Bytes at the end of `text` that more bytes may make a character.
size_t unfinished(std::string_view text) {
  for (size_t count = 1; count <= std::min<size_t>(3, text.size()); ++count) {
    const char lead = text[text.size() - count];
    if (!is_continuation(lead)) return bytes_after(static_cast<unsigned char>(lead)) > count ? count : 0;
  }
  return 0;
}

bool is_emoji(uint32_t code) { return (code >= 0x1f300 && code <= 0x1faff) || (code >= 0x2600 && code <= 0x27bf); }

// Adds `text` to what is shown already.
void show(std::string_view text, bool keep_lines, std::string& out) {
  out.reserve(out.size() + text.size());
  uint32_t before = 0;  // the last character that is no variation selector
  while (!text.empty()) {
    const auto [code, bytes] = first_character(text);
    // A family is one emoji of several that are joined.
    const bool joins =
        code == 0x200d && is_emoji(before) && text.size() > bytes && is_emoji(first_character(text.substr(bytes)).code);
    if (keep_lines && (code == '\n' || code == '\t')) {
      out += text[0];
    } else if (code >= '\t' && code <= '\r') {
      out += ' ';
    } else if (bytes == 0 || code < 0x20 || code == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (is_acted_on(code) && !joins) {
      out += fmt::format("\\u{{{:04x}}}", code);
    } else {
      if (in_github() && ((code == ':' && out.ends_with(':')) || (code == '[' && out.ends_with("##")))) out += ' ';
      out += text.substr(0, bytes);
    }
    if (code != 0xfe0f) before = code;
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  show(text, /*keep_lines=*/false, out);
  return out;
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t bytes = first_character(text).bytes;
    out += bytes == 0 ? std::string_view("\ufffd") : text.substr(0, bytes);
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return out;
}

std::string PrintableLines::next(std::string_view piece) {
  waiting_ += piece;
  const size_t whole = waiting_.size() - unfinished(waiting_), before = shown_.size();
  show(std::string_view(waiting_).substr(0, whole), /*keep_lines=*/true, shown_);
  waiting_.erase(0, whole);
  std::string more = shown_.substr(before);
  shown_.erase(0, shown_.size() - std::min<size_t>(2, shown_.size()));
  return more;
}

std::string PrintableLines::end() { return printable(std::exchange(waiting_, "")); }

std::string printable_lines(std::string_view text) {
  PrintableLines lines;
  std::string shown = lines.next(text);
  return shown + lines.end();
}

std::string shortened(const std::string& text, size_t columns) {
  return length(text) <= columns ? text : std::string(begin_of(text, columns - 3)) + "...";
}

std::string_view begin_of(std::string_view text, size_t columns) {
  size_t bytes = 0;
  for (size_t seen = 0; bytes < text.size();) {
    const Character next = first_character(text.substr(bytes));
    seen += columns_of(next.code);
    if (seen > columns) break;
    bytes += std::max<size_t>(next.bytes, 1);
  }
  return text.substr(0, bytes);
}

size_t length(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const Character next = first_character(text);
    columns += columns_of(next.code);
    text.remove_prefix(std::max<size_t>(next.bytes, 1));
  }
  return columns;
}

}  // namespace files
