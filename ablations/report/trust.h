// Whether a study can be trusted: what its page says of its runs, proofs, guards, noise, disturbances and environment.
#pragma once

#include "ablations/documents/baseline.h"
#include "ablations/documents/report.h"

#include <string>
#include <vector>

namespace ablations {

// `noise`: the floors measured under the study's circumstances.
std::vector<Card> trust_cards(const Study& study, const std::vector<ReportedRun>& runs,
                              const std::vector<Noise>& noise);

// "2 of 35 runs were disturbed" or "no run was disturbed"; empty where nobody knows.
std::string disturbance_words(const Study& study, const std::vector<ReportedRun>& runs);

}  // namespace ablations
