// Colours and bars on a terminal. Decided once for each stream; piped output is plain.
// Colour repeats what the words say and adds nothing to it. An escape sequence takes no column, so a text is padded and
// wrapped first and painted last.
#pragma once

#include "text/rooms.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace text {

enum class Style { plain, strong, faint, good, caution, bad };

struct Look {
  bool colour = false;  // else nothing is painted
  bool blocks = false;  // bars of Unicode's eighths, else of '#'

  // Paints each line of `text` separately, without its line end.
  [[nodiscard]] std::string painted(Style style, std::string_view text) const;
  // `text` with `size` bytes of it, from `begin` on, painted.
  [[nodiscard]] std::string painted(Style style, std::string_view text, size_t begin, size_t size) const;
  // As long as `share` of `width` columns, filled up with blanks. Any share above 0 is visible.
  [[nodiscard]] std::string bar(double share, size_t width) const;
};

// Colour on a terminal, unless TERM is "dumb" or NO_COLOR is set and not empty (https://no-color.org). Blocks on a
// terminal where LC_ALL, LC_CTYPE or LANG, the first that is set, names UTF-8.
const Look& standard_output();
const Look& standard_error();

// How a verdict or status is painted: "REGRESSION", "failed", "SLOWER", ... Plain for a word that is neither good nor
// bad.
Style style_of(std::string_view verdict);

}  // namespace text
