// What is said of a study of time to loss, and its table on a terminal: two rows for each rung.
#pragma once

#include "results/to_loss.h"
#include "text/style.h"

#include <string>

namespace plots {

// The study with what is said of it and of its rungs.
TimeToLoss with_said(TimeToLoss study);

std::string to_loss_table(const TimeToLoss& study, const Look& look = {});

}  // namespace plots
