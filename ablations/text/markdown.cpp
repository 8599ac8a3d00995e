#include "ablations/text/markdown.h"

#include "files/printable.h"

namespace ablations {

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

}  // namespace ablations
