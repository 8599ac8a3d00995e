// A ladder file and the rungs it makes on a machine: rung 0 is the start, rung k the recipe after the first k edits.
#pragma once

#include "harness/machine/environment.h"
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

// The file that it is read from, whether that is there or not.
std::filesystem::path ladder_file(const std::string& name_or_file);

// Names of the ladders that come with the program.
std::vector<std::string> ladder_names();

// Those of them that can be read and have the optimization: gpt2 and gpt2-cpu first, between which the program chooses
// by itself.
std::vector<Ladder> ladders_with(const std::string& optimization);

// Takes out of `edited`, which is `before` with one more optimization, what does not pay on this machine. Says why;
// empty: nothing.
using Choose = std::function<std::string(const model::Recipe& before, model::Recipe& edited)>;

// Puts one more optimization on. Where this machine or what is on already does not allow it, or nothing of it pays, the
// reason; the rung is then as it was.
[[nodiscard]] std::string put_on(Rung& rung, const std::string& optimization, const harness::Machine& machine,
                                 const Choose& choose = nullptr);

// `rung.name`, or its default.
std::string name_of(const Rung& rung);

// Edits that this machine cannot have are skipped, with the reason, and later rungs do without them. Rungs below
// the reference are not measured where the reference applies.
std::vector<Rung> climb(const Ladder& ladder, const harness::Machine& machine, const Choose& choose = nullptr);

// Its title as a ladder shows it: "+ bf16 autocast".
std::string label_of(const Rung& rung);

// Index of the rung that is meant by a name or title (is_meant). Throws std::invalid_argument for one that is not
// there, harness::Unfit for one that does not apply here; the message begins with `flag` and the name.
size_t find_rung(const std::vector<Rung>& rungs, const std::string& name, const char* flag, const std::string& ladder);

// Index of the rung from which speedups count.
size_t reference_rung(const std::vector<Rung>& rungs);

}  // namespace ablations
