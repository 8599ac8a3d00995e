// What somebody meant who mistyped a name.
#pragma once

#include <string>
#include <vector>

namespace files {

// Those of `names` that are written most like `name`, in any case: at most five, the nearest first, none that has
// hardly a letter in common (Levenshtein's distance). An abbreviation counts as near: "--reps" is near "--repeats", and
// "--batch-size" near "--batch".
[[nodiscard]] std::vector<std::string> nearest(const std::string& name, const std::vector<std::string>& names);

}  // namespace files
