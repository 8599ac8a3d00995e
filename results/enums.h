// Fields of documents that hold one of a few words. Each is an enum class. One table beside it has its names, in the
// order of its values:
//   enum class RunStatus { ok, failed, missing };
//   template <>
//   struct Names<RunStatus> {
//     static constexpr std::array list{"ok", "failed", "missing"};
//   };
#pragma once

#include "text/rooms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace results {

template <class Enum>
struct Names;

template <class Enum>
concept Named = requires {
  Names<Enum>::list;
};

// The value's name in documents.
template <Named Enum>
std::string name_of(Enum value) {
  return Names<Enum>::list[static_cast<size_t>(value)];
}

// The value with that name. Throws std::invalid_argument for any other word.
template <Named Enum>
Enum value_of(const std::string& name) {
  for (size_t i = 0; i < Names<Enum>::list.size(); ++i) {
    if (name == Names<Enum>::list[i]) return static_cast<Enum>(i);
  }
  throw std::invalid_argument(fmt::format("\"{}\" is not one of {}", name, fmt::join(Names<Enum>::list, ", ")));
}

}  // namespace results
