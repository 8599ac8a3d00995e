// The guard of `ladder measure`: whether a command learns what its reference learns, without a limit from the user.
//
// The deviation of a run is the median over the first 16 lines that both have, as in guard.h. The mean over a command's
// runs decides. It may be a thousandth of the loss, about the limit that GPT-2's 16-bit recipes have. If the
// reference's own runs differ, it may be what their differences give a mean by chance in one of a hundred studies, by
// Student's t. If that is more than a hundredth of the loss, nothing is compared. One run of the reference does not
// show how its runs differ.
//
// Three times what the reference's runs are apart is no limit for the worst run. Two runs may be close by chance, which
// gives false alarms in a quarter of studies. With more runs, fewer faults are found (docs/power.md, "Losses of
// commands").
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

// Neither is empty.
CommandGuard guard_command(const RunsByRepeat& runs, const RunsByRepeat& reference_runs);

}  // namespace study
