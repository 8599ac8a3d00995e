// The terminal's table of a study of time to loss.
#pragma once

#include "ablations/documents/to_loss.h"
#include "ablations/text/style.h"

#include <string>

namespace ablations {

// Two rows for each rung, and what is said of all. 80 columns.
std::string to_loss_table(const TimeToLoss& study, const Look& look = {});

}  // namespace ablations
