// The guard of `ladder measure`: whether a command learns what its reference learns, without a limit from the user.
//
// A command may be off by three times what the reference's own runs differ by, or by a thousandth of the loss if that
// is more: about the limit that GPT-2's 16-bit recipes have (docs/power.md, "Losses of commands"). Deviations are
// medians over the first 16 lines that both have, as in guard.h. Runs of the reference that differ by more than a
// hundredth of the loss tell nothing: then nothing is compared.
#pragma once

#include "results/study.h"
#include "study/measured.h"

#include <optional>
#include <string>

namespace study {

struct CommandGuard {
  std::optional<RungGuard> verdict;  // none: there was nothing to compare
  std::string words;                 // "the same (0.0006 off at steps 10 to 80, 0.0108 allowed)", or why not compared
};

// Neither is empty. A loss that is not finite fails.
CommandGuard guard_command(const RunsByRepeat& runs, const RunsByRepeat& reference_runs);

// How much the losses of a command's own runs differ, as a share of the loss; none without two runs with losses.
std::optional<double> own_spread(const RunsByRepeat& runs);

}  // namespace study
