// A ladder file, and its rungs on a machine. Rung 0 is the start; rung k is the recipe after k edits.
#pragma once

#include "ablations/plan/make_plan.h"
#include "harness/machine/machine.h"
#include "model/recipe.h"
#include "results/ladder.h"
#include "results/plan.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ablations {

// `name_or_file`: a ladder that comes with the program ("gpt2-cpu") or the path of a file. Throws std::invalid_argument
// with the file, the field and what is allowed: syntax, schema, unknown or repeated optimizations, conflicts, missing
// needs.
Ladder load_ladder(const std::string& name_or_file);

// The file of a ladder, which need not exist.
std::filesystem::path ladder_file(const std::string& name_or_file);

// Names of the ladders that come with the program.
std::vector<std::string> ladder_names();

// Removes from `edited` what does not pay on this machine. `edited` is `before` with one more optimization. Returns the
// reason; empty if nothing was removed.
using Choose = std::function<std::string(const model::Recipe& before, model::Recipe& edited)>;

// Throws std::invalid_argument for fields that this program does not know.
model::Recipe recipe_of(const Rung& rung);

// Adds one optimization to the rung. Returns why not if the machine or the recipe does not allow it, or nothing of it
// pays. The rung is then unchanged.
[[nodiscard]] std::string put_on(Rung& rung, const std::string& optimization, const harness::Machine& machine,
                                 const Choose& choose = nullptr);

// The ladder's rungs on this machine. Edits that it cannot have are skipped, with the reason; later rungs lack them.
// Rungs below the reference are not measured if the reference applies.
std::vector<Rung> climb(const Ladder& ladder, const harness::Machine& machine, const Choose& choose = nullptr);

// Index of the rung that trainings and gates take where nobody names one: the last that applies here of those that the
// ladder says are shown. Nobody knows what a later one does to a training, or how long it takes.
size_t default_rung(const Ladder& ladder, const std::vector<Rung>& rungs);

// Index of the rung with a name or title (matches_name). Throws std::invalid_argument if there is none, and
// harness::Unfit if it does not apply here. The message begins with `flag` and the name.
size_t find_rung(const std::vector<Rung>& rungs, const std::string& name, const char* flag, const std::string& ladder);

}  // namespace ablations
