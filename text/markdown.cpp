#include "text/markdown.h"

#include "files/printable.h"

#include <algorithm>

namespace text {

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
