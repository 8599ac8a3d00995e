// What the counted work of each rung's step lets one expect of its ratio to the rung above it. It knows memory traffic
// and arithmetic only: no launches, no page faults, no caches.
#pragma once

#include "results/plan.h"
#include "results/report.h"

#include <string>
#include <vector>

namespace plots {

// One for each rung of a cumulative ladder whose records count its least work, in their order. A ratio compares the
// times at the limits (study/trace/roofline.h) of what the plan counts. Traces of these rungs with a roofline, made on
// the study's machine, know the limits. A rung with the least time of the rung above has no ratio.
std::vector<Prediction> predictions_of(const Study& study, const Plan& plan, const std::vector<TraceDocument>& traces);

}  // namespace plots
