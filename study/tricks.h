// What makes a command's number untrue whatever its interval: each is a fact that was seen, with its figures.
// docs/tricks.md has the programs that this was tried on.
//
// Runs tell some of it themselves (CommandRun::found). The rest comes from comparing a command's runs with the
// reference's. Both may do the same for a reason of their own, and then nothing is found. So may chance, and so the
// limits are wide: a difference of a tenth in the pace is not seen.
#pragma once

#include "ablations/plan/make_plan.h"
#include "study/measured.h"

#include <string>
#include <vector>

namespace study {

// Of a plan of commands whose runs were watched, each in one sentence that begins with the command's title. Empty for
// any other plan.
std::vector<Found> tricks_in(const Plan& plan, const std::vector<RunsByRepeat>& runs_of);

}  // namespace study
