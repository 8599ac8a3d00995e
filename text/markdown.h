// Text for a page in Markdown.
#pragma once

#include "text/rooms.h"

#include <string>
#include <string_view>

namespace text {

// `text` as one line of a paragraph or a table's cell in which nothing is markup, not HTML either.
std::string markdown(std::string_view text);

// The same for our own words. In them `...` is code.
std::string markdown_with_code(std::string_view text);

}  // namespace text
