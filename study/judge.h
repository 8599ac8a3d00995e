// Decides whether the number of a rung with runs counts. A rung stays "measured" if every proof of its runs passed and
// its losses follow the guarding rung's. Otherwise it becomes "unproven" or "void", with a reason in words. It is
// "missing" while the guarding rung has no run.
//
// Unproven comes before void: losses are compared only if the optimization was seen to be on.
#pragma once

#include "ablations/plan/make_plan.h"
#include "results/study.h"
#include "study/measured.h"

#include <vector>

namespace study {

// Judges a rung by its own runs, at least one. Sets its proofs; a failed proof of any run stands for all. Sets status
// and reason if the number does not count.
void judge_alone(const RunsByRepeat& runs, StudyRung& rung);

// Judges a rung by its guarding rung, after all were judged alone. Sets guard, and status and reason if the number does
// not count. Rung `index` must have a run. An unproven rung stays as it is.
void judge_by_reference(const Plan& plan, size_t index, size_t reference, const Measured& measured,
                        std::vector<StudyRung>& rungs);

}  // namespace study
