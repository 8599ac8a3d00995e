// A study's result in one number.
#pragma once

#include "ablations/plan/make_plan.h"
#include "results/study.h"
#include "study/measured.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace study {

// The reference of the speedups. If a cumulative ladder's reference has no valid number, the first measured rung after
// it.
size_t reference_that_counts(const Plan& plan, const std::vector<StudyRung>& rungs);

// The headline of a mode with one number; none in other modes. `last`: the last of our rungs that was measured.
// "fastest" names an earlier rung that is clearly faster. A study leads with it.
std::optional<Headline> headline_of(const Plan& plan, const Measured& measured, const std::vector<StudyRung>& rungs,
                                    size_t reference, std::optional<size_t> last);

}  // namespace study
