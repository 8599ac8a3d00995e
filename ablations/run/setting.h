// The circumstances of a time. Two times are comparable only where these are equal; what a change is judged by is
// everything else: the program, and the recipe's optimizations.
#pragma once

#include "harness/json_file.h"

#include <string>
#include <vector>

namespace ablations {

// From a record's or a study's `environment` and `workload` and a `recipe`, all as in records: device, its driver
// (CUDA) or threads, cores that it may use and instructions of ATen's kernels (CPU), CUDA, torch, the switches by which
// libraries choose kernels, model, batch, context, accumulation, positions, dtype. A flat object; null where the source
// does not say.
harness::Json setting_of(const harness::Json& environment, const harness::Json& workload, const harness::Json& recipe);
harness::Json setting_of(const harness::Json& record);

// The machine's part of it alone: without model, batch, context, accumulation, positions and dtype.
harness::Json machine_setting(const harness::Json& environment, bool cuda);

// What an `environment` tells a program by: commit, its file's SHA-256 where there were changes on top, compiler and
// flags, libraries.
std::vector<const char*> program_fields(bool cuda);

// Whether two environments are known to be of one program: built from the same commit without changes, else the same
// file.
bool are_of_one_program(const harness::Json& environment, const harness::Json& other);

// What must be the same for all runs of a study: the machine's part, the program (program_fields, git_dirty) and the
// text (SHA-256 of the tokens); null where the record does not say. Of PyTorch's records and ours apart: theirs say
// less.
harness::Json study_setting(const harness::Json& record, bool cuda);

// One line for each field that differs: "batch: 16 against 64". Empty: comparable. Cores, instructions and switches
// that one side does not say, as in older files, are unknown there and not different, unless the other side has
// switches.
std::vector<std::string> differences(const harness::Json& setting, const harness::Json& other);

// What a series of times over months is kept under, beside the device: 12 hexadecimal digits of the SHA-256 of the
// recipe and of the step's model and size. Key order and missing defaults of `workload` do not matter. Throws
// std::invalid_argument for a recipe that this program does not know.
std::string recipe_hash(const harness::Json& recipe, const harness::Json& workload);

// "nvidia-h200", "amd-epyc-2-threads": the device of a setting, to be part of a file's name.
std::string device_slug(const harness::Json& setting);

}  // namespace ablations
