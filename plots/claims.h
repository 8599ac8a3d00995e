// What others have claimed of the techniques, beside what studies show.
#pragma once

#include "ablations/techniques/technique.h"
#include "plots/seen.h"
#include "results/report.h"

#include <string>
#include <vector>

namespace plots {

struct CheckedClaim {
  Standing standing;
  std::string words;  // a sentence or two, in which `...` is code and nothing else is markup
};

// A time or a size counts as measured only on the kind of device that it is claimed of.
CheckedClaim checked(const Claim& claim, const std::string& optimization, const std::vector<Seen>& seen);

// docs/claims.md: every claim, and what the records show.
std::string claims_page(const Evidence& evidence);

}  // namespace plots
