// The judgment of `ladder gate --expect`: whether head, the second of a plan's two commands, is kept.
#pragma once

#include "ablations/plan/make_plan.h"
#include "results/study.h"
#include "study/measured.h"

#include <vector>

namespace study {

// Of the pairs that are there. `rungs` are judged already: a head that failed, or that learns something else, is
// discarded whatever its time, and so it is where something was found (study/tricks.h). Without runs of both it is
// undecided.
Judgment judgment_of(const Plan& plan, const Measured& measured, const std::vector<StudyRung>& rungs,
                     const std::vector<Found>& found);

}  // namespace study
