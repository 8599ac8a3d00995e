// The untimed runs of a study of commands that show what a command does in PyTorch, and its first steps.
#pragma once

#include "ablations/plan/make_plan.h"

#include <filesystem>

namespace cli {

// Of every rung with PyTorch, or of `all`, into FOLDER/looks; what is there already is not made again. Then of each
// reference with rounding, as study/same_training.h needs them.
void take_looks(const Plan& plan, const std::filesystem::path& folder, bool all);

}  // namespace cli
