// What is said of a night of experiments: for its page, and on a terminal.
#pragma once

#include "results/ledger.h"
#include "text/style.h"

#include <string>

namespace plots {

// By what all kept experiments together are better: the product of their ratios. 1: none is kept.
double kept_ratio(const Ledger& ledger);

Said said_of(const Ledger& ledger);

// A line for each experiment, and what is said.
std::string ledger_table(const Ledger& ledger, const Look& look = {});

}  // namespace plots
