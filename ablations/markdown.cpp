#include "ablations/markdown.h"

namespace ablations {

std::string markdown(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      escaped += ' ';
      continue;
    }
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
