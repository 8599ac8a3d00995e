// With which text and variables a command is started.
#pragma once

#include "results/plan.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ablations {

// What keeps runs apart, and what they print from being held back.
void add_variables(std::vector<std::string>& variables, const std::filesystem::path& own);
std::string python_path_with_look();
// A number that nobody can know before the study, the same for the runs of a pair. Where losses are guarded, the first
// three repeats have one seed, so that the first command's own runs show how much they differ without another seed.
int64_t seed_of(const Plan& plan, int64_t repeat);
// With the run's own folder in place of {run}. It may stand between quotes or not, so its path must need none.
// And with `repeat`, from 1 on, in place of {repeat}: a seed that the runs of a pair share.
// And with seed_of() in place of {seed}; a trial's and a look's repeat is 0 there.
std::string text_for(const Plan& plan, const TypedCommand& command, const std::filesystem::path& own, int64_t repeat,
                     bool is_trial = false);

}  // namespace ablations
