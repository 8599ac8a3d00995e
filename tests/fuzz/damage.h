// Damage for files: what tests put into good ones, always the same.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace fuzz {

// Copies of `bytes`, each with one fault at one of so many places: cut short, a stretch left out or twice,
// a bit or eight bytes changed, digits that overflow.
inline std::vector<std::string> damaged(const std::string& bytes, size_t places) {
  std::vector<std::string> all;
  for (size_t i = 0; i < places; ++i) {
    const size_t at = bytes.size() * i / places;
    const std::string before = bytes.substr(0, at), after = bytes.substr(at);
    const size_t digits = after.find_first_of("0123456789");
    all.push_back(before);
    all.push_back(before + after.substr(std::min<size_t>(9, after.size())));
    all.push_back(before + after.substr(0, 9) + after);
    if (after.empty()) continue;
    all.push_back(before + static_cast<char>(after[0] ^ 0x10) + after.substr(1));
    all.push_back(before + std::string(8, '\xff') + after.substr(std::min<size_t>(8, after.size())));
    if (digits == std::string::npos) continue;
    const size_t end = std::min(after.find_first_not_of("0123456789", digits), after.size());
    all.push_back(before + after.substr(0, digits) + "18446744073709551615" + after.substr(end));
  }
  return all;
}

}  // namespace fuzz
