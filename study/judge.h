// Decides whether the number of a rung with runs counts. A rung stays "measured" if every proof of its runs passed and
// its losses follow the guarding rung's. Otherwise it becomes "unproven" or "void", with a reason in words. It is
// "missing" while the guarding rung has no run.
//
// Unproven comes before void: losses are compared only if the optimization was seen to be on.
#pragma once

#include "ablations/plan/make_plan.h"
#include "results/study.h"
#include "study/measured.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace study {

// Judges a rung by its own runs, at least one. Sets its proofs; a failed proof of any run stands for all. Sets status
// and reason if the number does not count.
void judge_alone(const RunsByRepeat& runs, StudyRung& rung);

// Judges a rung by its guarding rung, after all were judged alone. Sets guard, and status and reason if the number does
// not count. Rung `index` must have a run. An unproven rung stays as it is.
void judge_by_reference(const Plan& plan, size_t index, size_t reference, const Measured& measured,
                        std::vector<StudyRung>& rungs);

// A study's result in one number.

// The reference of the speedups. If a cumulative ladder's reference has no valid number, the first measured rung after
// it.
size_t reference_that_counts(const Plan& plan, const std::vector<StudyRung>& rungs);

// The headline of a mode with one number; none in other modes. `last`: the last of our rungs that was measured.
// "fastest" names an earlier rung that is clearly faster. A study leads with it.
std::optional<Headline> headline_of(const Plan& plan, const Measured& measured, const std::vector<StudyRung>& rungs,
                                    size_t reference, std::optional<size_t> last);

}  // namespace study
