#include "files/nearest.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

namespace files {
namespace {

std::string lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return text;
}

// Without the dashes of a flag, which say nothing of what was meant.
std::string_view letters_of(std::string_view name) {
  return name.substr(std::min(name.find_first_not_of('-'), name.size()));
}

// "reps" of "repeats", "batch-size" of "batch". The first three letters are the same. The longer name has the shorter
// one's other letters in order.
bool is_short_for(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  if (a.size() < 3 || a.substr(0, 3) != b.substr(0, 3)) return false;
  size_t found = 0;
  for (const char c : b) found += found < a.size() && a[found] == c ? 1 : 0;
  return found == a.size();
}

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
  std::vector<std::tuple<size_t, bool, std::string>> ranked;  // letters, not an abbreviation, name
  for (const std::string& candidate : names) {
    const std::string typed_name = lower_case(name), known_name = lower_case(candidate);
    const std::string_view typed = letters_of(typed_name), known = letters_of(known_name);
    const bool is_short = is_short_for(typed, known);
    const size_t letters = is_short ? std::min<size_t>(distance(typed, known), 2) : distance(typed, known);
    if (letters <= std::max(std::min<size_t>(3, typed.size() / 2), typed.size() / 3))
      ranked.emplace_back(letters, !is_short, candidate);
  }
  std::ranges::sort(ranked);
  std::vector<std::string> result;
  for (size_t i = 0; i < std::min<size_t>(ranked.size(), 5); ++i) result.push_back(std::get<std::string>(ranked[i]));
  return result;
}

std::string or_nearest(const std::string& what, const std::string& name, const std::vector<std::string>& names) {
  const std::vector<std::string> near = nearest(name, names);
  return near.empty() ? what : what + "; did you mean " + near.front() + "?";
}

}  // namespace files
