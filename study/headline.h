// A study's result in one number.
#pragma once

#include "ablations/plan/plan.h"
#include "results/study.h"
#include "study/measured.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace ablations {

// Where the reference of a cumulative ladder has no valid number, the first measured rung after it takes its place.
size_t reference_that_counts(const Plan& plan, const std::vector<StudyRung>& rungs);

// In the modes that have one number; none in the others. `last`: the last of our rungs that was measured. "fastest"
// names an earlier rung that is clearly faster: a study leads with that.
std::optional<Headline> headline_of(const Plan& plan, const Measured& measured, const std::vector<StudyRung>& rungs,
                                    size_t reference, std::optional<size_t> last);

}  // namespace ablations
