#include "files/nearest.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

namespace files {
namespace {

// Letters to insert, delete or replace (Levenshtein).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({replaced, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> nearest(const std::string& name, const std::vector<std::string>& names) {
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const std::string& candidate : names) {
    const size_t letters = distance(name, candidate);
    if (letters <= std::max<size_t>(3, name.size() / 3)) ranked.emplace_back(letters, candidate);
  }
  std::ranges::sort(ranked);
  std::vector<std::string> result;
  for (size_t i = 0; i < std::min<size_t>(ranked.size(), 5); ++i) result.push_back(ranked[i].second);
  return result;
}

}  // namespace files
