#include "text/list.h"

#include "files/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <stdexcept>

namespace text {

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

}  // namespace text
