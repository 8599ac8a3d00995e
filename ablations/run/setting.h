// Reads the circumstances of a measurement (results/setting.h), and its program, from a record.
#pragma once

#include "results/record.h"
#include "results/setting.h"

#include <string>

namespace ablations {

// `recipe`: as in records. What is not there is not known.
Setting setting_of(const Environment& environment, const Workload& workload, const files::Json& recipe);
Setting setting_of(const Record& record);

// The machine's part of it alone: without model, batch, context, accumulation, positions and dtype.
Setting machine_setting(const Environment& environment, bool cuda);

// What tells a program from others: commit, its file's SHA-256 where there were changes on top, compiler and flags,
// libraries.
Facts program_facts(const Environment& environment, bool cuda);

// Whether two environments are known to be of one program: built from the same commit without changes, else the same
// file.
bool are_of_one_program(const Environment& environment, const Environment& other);

// What must be the same for all runs of a study: the machine's part, the program (program_facts, git_dirty) and the
// text (SHA-256 of the tokens). Of PyTorch's records and ours apart: theirs say less.
Facts study_facts(const Environment& environment, const Workload& workload, bool cuda);
Facts study_facts(const Record& record, bool cuda);

// What a series of times over months is kept under, beside the device: 12 hexadecimal digits of the SHA-256 of the
// recipe and of the step's model and size. Key order and missing defaults of `recipe` do not matter. Throws
// std::invalid_argument for a recipe that this program does not know.
std::string recipe_hash(const files::Json& recipe, const Workload& workload);

}  // namespace ablations
