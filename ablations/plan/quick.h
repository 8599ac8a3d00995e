// A quick look at a ladder: its reference and its last rung, four times each. The whole ladder goes on from it in the
// same folder.
#pragma once

#include "ablations/plan/make_plan.h"

namespace ablations {

constexpr int64_t quick_repeats = 4;

// Leaves out of a cumulative plan what a quick look does not measure.
void make_quick(Plan& plan);

// The plan of the whole ladder after a quick look. It keeps the quick runs and adds the missing repeats, each with
// every rung once. So every pair of runs is still of one repeat. The rungs left out before have four pairs fewer.
Plan whole_plan(const Plan& quick);

}  // namespace ablations
