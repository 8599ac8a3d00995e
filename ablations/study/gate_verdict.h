// From a gate's records to its verdict.
#pragma once

#include "ablations/plan/plan.h"

#include <filesystem>
#include <string>

namespace ablations {

// The verdict (results/schemas/gate.v1.json) on the first `pairs` pairs of a gate's plan. Where the plan says so,
// stores baselines and noise floors. Throws harness::Unfit for circumstances that differ without --force.
harness::Json gate_verdict(const Plan& plan, const std::filesystem::path& folder, int64_t pairs, bool topped_up);

}  // namespace ablations
