#include "model/text_file.h"

#include <algorithm>

namespace model {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_cut(char before, char after) { return before > ' ' && before <= '~' && is_space(after); }

}  // namespace

std::string TextFile::bytes(uint64_t begin, size_t count) {
  std::string text(count, '\0');
  file_.read_at(begin, text.data(), count);
  ++reads_;
  bytes_read_ += static_cast<int64_t>(count);
  return text;
}

std::string TextFile::part(uint64_t begin, size_t least) {
  constexpr size_t more = 64;  // a word or two
  const uint64_t rest = size() - begin;
  std::string text;
  for (uint64_t wanted = least + more;; wanted *= 2) {
    const size_t before = text.size();
    text += bytes(begin + before, static_cast<size_t>(std::min(wanted, rest)) - before);
    for (size_t i = std::max<size_t>(least, 1); i < text.size(); ++i) {
      if (is_cut(text[i - 1], text[i])) return text.substr(0, i);
    }
    if (text.size() == rest) return text;
  }
}

uint64_t TextFile::cut_before(uint64_t byte) {
  for (uint64_t block = 64;; block *= 2) {
    const uint64_t begin = byte > block ? byte - block : 0;
    const std::string text = bytes(begin, static_cast<size_t>(std::min(byte + 1, size()) - begin));
    for (size_t i = text.size(); i-- > 1;) {
      if (is_cut(text[i - 1], text[i])) return begin + i;
    }
    if (begin == 0) return 0;
  }
}

}  // namespace model
