// The terminal's table of a sweep of learning rates.
#pragma once

#include "ablations/documents/lr_sweep.h"
#include "ablations/text/style.h"

#include <string>

namespace ablations {

// A row for each rate, and what is said of all. 80 columns.
std::string lr_sweep_table(const LearningRateSweep& sweep, const Look& look = {});

}  // namespace ablations
