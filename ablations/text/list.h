// Lists as flags take them.
#pragma once

#include <string>
#include <vector>

namespace ablations {

// "a,b,c" -> {"a", "b", "c"}. Throws std::invalid_argument, which begins with `where`, for an empty item and for one
// that is given twice.
std::vector<std::string> list_of(const std::string& text, const std::string& where);

}  // namespace ablations
