// What the counted work of each rung's step lets one expect of its ratio to the rung above it. It knows memory traffic
// and arithmetic only: no launches, no page faults, no caches.
#pragma once

#include "results/report.h"

#include <string>
#include <vector>

namespace ablations {

// One for each rung of a cumulative ladder whose records count its least work, in their order. A ratio is that of the
// times at the limits (profile/roofline.h). Traces with a roofline, made on the study's machine, know the limits of
// products as their recipes make them (profile/rates.h). A rung whose work and limits are those of the rung above has
// none.
std::vector<Prediction> predictions_of(const Study& study, const std::vector<TraceDocument>& traces);

// What the numbers count, and why there are no ratios, if there are none; empty without a prediction.
std::string prediction_words(const std::vector<Prediction>& predictions);

}  // namespace ablations
