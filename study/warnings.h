// What makes the numbers of a study doubtful, in words.
#pragma once

#include "ablations/plan/make_plan.h"
#include "results/study.h"
#include "study/measured.h"

#include <string>
#include <vector>

namespace study {

// `rungs`: judged and numbered. `environment`: the study's.
std::vector<std::string> warnings_of(const Plan& plan, const Measured& measured, const std::vector<StudyRung>& rungs,
                                     const Environment& environment);

}  // namespace study
