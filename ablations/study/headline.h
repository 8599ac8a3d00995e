// What a study comes to in one number, and the sentences that stand beside its table.
#pragma once

#include "ablations/plan/plan.h"
#include "ablations/study/measured.h"
#include "harness/json_file.h"

#include <cstddef>
#include <optional>

namespace ablations {

// Where the reference of a cumulative ladder has no valid number, the first measured rung after it takes its place.
size_t reference_that_counts(const Plan& plan, const harness::Json& rungs);

// study.v1.json, "headline", in the modes that have one number; null in the others. `last`: the last of our rungs that
// was measured. "fastest" names an earlier rung that is clearly faster: a study leads with that.
harness::Json headline_of(const Plan& plan, const Measured& measured, const harness::Json& rungs, size_t reference,
                          std::optional<size_t> last);

// study.v1.json, "notes", of a cumulative ladder: which rungs cost time, and why "so far" is not the product of the
// steps, where the shown numbers disagree by more than their rounding.
harness::Json notes_of(const Plan& plan, const harness::Json& rungs, const harness::Json& headline);

}  // namespace ablations
