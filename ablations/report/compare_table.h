// A comparison as a table: on a terminal, 80 columns, and as Markdown for a pull request's summary.
#pragma once

#include "ablations/documents/comparison.h"
#include "ablations/report/comparison_words.h"
#include "ablations/text/style.h"

#include <string>

namespace ablations {

std::string comparison_table(const Comparison& comparison, const Look& look = {},
                             const SideNames& names = sides_of_programs);
std::string comparison_markdown(const Comparison& comparison);

}  // namespace ablations
