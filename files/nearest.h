// Finds the names that a mistyped name may have meant.
#pragma once

#include <string>
#include <vector>

namespace files {

// At most five of `names` that are spelled like `name`, the nearest first (Levenshtein's distance). Case is ignored;
// distant names are left out. An abbreviation counts as near: "--reps" is near "--repeats", and "--batch-size" is near
// "--batch".
[[nodiscard]] std::vector<std::string> nearest(const std::string& name, const std::vector<std::string>& names);

// "WHAT; did you mean NAME?", or `what` alone where no name is near.
[[nodiscard]] std::string or_nearest(const std::string& what, const std::string& name,
                                     const std::vector<std::string>& names);

}  // namespace files
