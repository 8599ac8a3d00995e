// Lists as flags take them, and as sentences name them.
#pragma once

#include "text/rooms.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace text {

// What to do with an item that is given twice: refuse it, or keep it twice (a rung that is measured beside itself).
enum class Repeats : uint8_t { refused, kept };

// "a,b,c" -> {"a", "b", "c"}. Throws std::invalid_argument for an empty item, and for one that is given twice, unless
// repeats are kept. The message begins with `where`.
std::vector<std::string> list_of(const std::string& text, const std::string& where, Repeats repeats = Repeats::refused);

// "a; b; c (and 2 more)": the first `most` items, cut at `width` together. Empty: there are none.
std::string first_of(const std::vector<std::string>& items, size_t most, size_t width = std::string::npos);

}  // namespace text
