// Reads the circumstances of a measurement (ablations/documents/setting.h), and its program, from a record.
#pragma once

#include "ablations/documents/setting.h"
#include "files/json_file.h"

#include <string>
#include <vector>

namespace ablations {

// From a record's or a study's `environment` and `workload` and a `recipe`, all as in records. What is not there, or
// not what it should be, is not known.
Setting setting_of(const files::Json& environment, const files::Json& workload, const files::Json& recipe);
Setting setting_of(const files::Json& record);

// The machine's part of it alone: without model, batch, context, accumulation, positions and dtype.
Setting machine_setting(const files::Json& environment, bool cuda);

// As the text of a fact: a text itself, null as none, all else as JSON.
std::optional<std::string> fact_of(const files::Json& value);

// What an `environment` tells a program by: commit, its file's SHA-256 where there were changes on top, compiler and
// flags, libraries.
std::vector<const char*> program_fields(bool cuda);

// Whether two environments are known to be of one program: built from the same commit without changes, else the same
// file.
bool are_of_one_program(const files::Json& environment, const files::Json& other);

// What must be the same for all runs of a study: the machine's part, the program (program_fields, git_dirty) and the
// text (SHA-256 of the tokens). Of PyTorch's records and ours apart: theirs say less.
Facts study_facts(const files::Json& record, bool cuda);

// What a series of times over months is kept under, beside the device: 12 hexadecimal digits of the SHA-256 of the
// recipe and of the step's model and size. Key order and missing defaults of `workload` do not matter. Throws
// std::invalid_argument for a recipe that this program does not know.
std::string recipe_hash(const files::Json& recipe, const files::Json& workload);

}  // namespace ablations
