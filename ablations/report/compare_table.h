// A comparison (ablations/study/compare.h) as people read it: on a terminal, 80 columns, and as the Markdown of a pull
// request's summary.
#pragma once

#include "ablations/text/style.h"
#include "harness/json_file.h"

#include <string>

namespace ablations {

std::string comparison_table(const harness::Json& comparison, const Look& look = {});
std::string comparison_markdown(const harness::Json& comparison);

}  // namespace ablations
