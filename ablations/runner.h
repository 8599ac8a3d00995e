// Carries out a plan: one child process for each run, records into the study's folder. Whatever happens to a child
// costs its own run only; whatever happens to the runner costs the running child only.
//
//   FOLDER/plan.json           what was planned; never changed
//   FOLDER/records/ID.json     one for each run that has ended, well or not
//   FOLDER/logs/ID.log         what the child printed
//   FOLDER/study.json          what came of it (analysis.h)
#pragma once

#include "ablations/plan.h"

#include <filesystem>
#include <string>
#include <vector>

namespace ablations {

// Creates the folder with the plan in it. Throws std::invalid_argument when it holds a study already, std::system_error
// when it cannot be written.
void create_study(const Plan& plan, const std::filesystem::path& folder);

// Reads the plan of an existing study. Throws std::invalid_argument when there is none.
Plan open_study(const std::filesystem::path& folder);

enum class Outcome { complete, some_failed, interrupted };

// Makes the runs that have no successful record yet, in the plan's order. `program`: the ladder program itself. Throws
// std::invalid_argument while another runner works in the folder.
Outcome carry_out(const Plan& plan, const std::filesystem::path& folder, const std::filesystem::path& program);

std::filesystem::path record_file(const std::filesystem::path& folder, const std::string& run_id);

}  // namespace ablations
