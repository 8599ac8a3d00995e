// What a study would be on this machine, told before any run.
#pragma once

#include "ablations/plan/make_plan.h"
#include "ablations/profile/estimate.h"
#include "cli/gpt2/request.h"

#include <string>

namespace cli {

struct Prospect {
  Plan plan;
  Estimate estimate;
  std::string refusal;  // why `ladder ablate` would not begin it; empty: it would
};

// Throws std::invalid_argument as make_plan does. Times nothing and does not read the text.
Prospect prospect_of(const StudyFlags& flags);

// "can be measured", "not measured" or "not applicable here".
const char* status_text(const Rung& rung);

// "7 rungs, about 13 minutes, 3.1 GiB"; "6 of 7 rungs, ..." where some cannot be measured.
std::string summary_of(const Prospect& prospect);

// A line for each rung, and that summary.
std::string rungs_text(const Prospect& prospect);

}  // namespace cli
