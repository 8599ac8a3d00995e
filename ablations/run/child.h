// One planned run in its own process: how it is called, and what it returns. A failure of the child costs only its own
// run.
#pragma once

#include "ablations/plan/make_plan.h"
#include "results/record.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ablations {

// Who makes the runs: this program itself, and a Python with PyTorch for the peers'.
struct Programs {
  std::filesystem::path ladder;
  std::vector<std::string> python;  // with its flags
};

// The run's record. Without one of the child's it says why. None if the run was interrupted. `folder`: the study's,
// with records/ and logs/ in it. `on_line`: what the child says of its progress.
std::optional<Record> made_by_child(const Plan& plan, const PlannedRun& run, const Programs& programs,
                                    const std::filesystem::path& folder,
                                    const std::function<void(std::string_view)>& on_line);

// The script that does the work of a planned run in PyTorch.
std::filesystem::path peer_script();

// The end of what a child printed, whatever that was: one line of UTF-8 without control characters.
std::string last_line(const std::filesystem::path& log);

}  // namespace ablations
