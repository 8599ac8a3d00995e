// What is said of a sweep of learning rates, and its table on a terminal: a row for each rate.
#pragma once

#include "results/to_loss.h"
#include "text/style.h"

#include <string>

namespace plots {

// The sweep with what is said of it and of its rates.
LearningRateSweep with_said(LearningRateSweep sweep);

std::string lr_sweep_table(const LearningRateSweep& sweep, const Look& look = {});

}  // namespace plots
