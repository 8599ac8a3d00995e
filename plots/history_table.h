// The history of studies on a terminal, at most 80 columns wide.
#pragma once

#include "results/history.h"
#include "text/style.h"

#include <string>

namespace plots {

std::string history_table(const History& history, const Look& look = {});

}  // namespace plots
