// Reads the circumstances of a measurement (results/setting.h), and its program, from a record.
#pragma once

#include "results/record.h"
#include "results/setting.h"

#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace ablations {

// `recipe`: as in records. What is not there is not known.
Setting setting_of(const Environment& environment, const Workload& workload, const files::Json& recipe);
Setting setting_of(const Record& record);

// The machine's part of it alone: without model, batch, context, accumulation, positions and dtype.
Setting machine_setting(const Environment& environment, bool cuda);

// What identifies a program: commit, compiler and flags, libraries, and its file's SHA-256 if there were uncommitted
// changes.
Facts program_facts(const Environment& environment, bool cuda);

// Whether two environments are known to be of one program: the same commit without changes, or the same file.
bool are_of_one_program(const Environment& environment, const Environment& other);

// What all runs of a study have in common: machine, program (program_facts, git_dirty) and the tokens' SHA-256.
// PyTorch's records say less, so compare them only with each other.
Facts study_facts(const Environment& environment, const Workload& workload, bool cuda);
Facts study_facts(const Record& record, bool cuda);

// The key of a series of times, together with the device. It has 12 hexadecimal digits of the SHA-256 of recipe, model
// and size. Key order and missing defaults of `recipe` do not matter.
std::string recipe_hash(const files::Json& recipe, const Workload& workload);
// The same of a command, by its text; `unit`: of its times, "step" or "run".
std::string command_hash(const std::string& text, const std::string& unit);

// What a measured program is made of, by the files that its processes have loaded.

// Python and its packages with compiled code among these files: {"python": "3.11", "torch": "2.11.0"}. 50 at most.
std::map<std::string, std::string> versions_of(const std::set<std::filesystem::path>& code);

}  // namespace ablations
