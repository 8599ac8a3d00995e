// A study as a table on a terminal, and what is said of it below.
#pragma once

#include "results/study.h"
#include "text/style.h"

#include <string>

namespace plots {

// The rungs, each with a bar of its time against the slowest, or with the reason why it has no number. Then what each
// optimization is worth, and the same work in another program. Last come remarks, the headline and its figures.
// `verbose`: with what changed from rung to rung, and how numbers were computed.
std::string study_table(const Study& study, const Look& look = {}, bool verbose = false);

}  // namespace plots
