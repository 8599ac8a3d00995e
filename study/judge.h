// Judges whether the number of a rung that has runs counts. A rung stays "measured" if every proof of its runs passed
// and its losses are finite and follow those of the rung that guards it. Otherwise it is "unproven" or "void", or
// "missing" while the rung that it is compared with has no run yet, with a reason in words.
//
// Unproven comes before void: losses are only compared where the optimization was seen to be on.
#pragma once

#include "ablations/plan/plan.h"
#include "results/study.h"
#include "study/measured.h"

#include <vector>

namespace ablations {

// By its own runs, of which there is one at least: sets the rung's proofs (a failed one of any run stands for all), and
// status and reason where its number does not count.
void judge_alone(const RunsByRepeat& runs, StudyRung& rung);

// By the rung that guards it, once all have been judged alone: sets guard, and status and reason where its number does
// not count. Rung `index` has a run; an unproven one is left as it is.
void judge_by_reference(const Plan& plan, size_t index, size_t reference, const Measured& measured,
                        std::vector<StudyRung>& rungs);

}  // namespace ablations
