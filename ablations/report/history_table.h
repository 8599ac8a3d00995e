// The history of studies (ablations/study/history.h) on a terminal, at most 80 columns wide.
#pragma once

#include "ablations/text/style.h"
#include "harness/json_file.h"

#include <string>

namespace ablations {

std::string history_table(const harness::Json& history, const Look& look = {});

}  // namespace ablations
