// A study as a table on a terminal, at most 80 columns wide.
#pragma once

#include "ablations/documents/study.h"
#include "ablations/text/style.h"

#include <string>

namespace ablations {

// The rungs, each with a bar of its time as long as its share of the slowest, and with the reason in place of numbers
// where one has none; what each optimization is worth; the same work in another program; and the sentences that belong
// to it: device, interval, warnings. An interval that is too wide for its column stands on the next line; a rung with
// disturbed runs is marked.
std::string study_table(const Study& study, const Look& look = {});

}  // namespace ablations
