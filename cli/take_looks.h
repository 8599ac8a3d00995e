// The untimed runs of a study that show what a command does in PyTorch, and the first steps of a command or a rung.
#pragma once

#include "ablations/plan/make_plan.h"

#include <filesystem>
#include <functional>
#include <string>

namespace cli {

// Looks at a rung, and writes the file. `rounding`: "8+1", bits and seed; empty: none. Returns why there is no file.
using TakeLook =
    std::function<std::string(size_t rung, const std::filesystem::path& file, const std::string& rounding)>;

// Of every rung that is `wanted`, into FOLDER/looks; what is there already is not made again. Then of each reference
// with rounding, as study/same_training.h needs them.
void take_looks(const Plan& plan, const std::filesystem::path& folder, const std::function<bool(const Rung&)>& wanted,
                const TakeLook& take);

// Of every command with PyTorch, or of `all`.
void take_looks(const Plan& plan, const std::filesystem::path& folder, bool all);

}  // namespace cli
