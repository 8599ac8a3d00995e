// The plan of a study (documents/plan.h): what is asked of it, and the order of its runs.
#pragma once

#include "ablations/plan/ladder.h"
#include "ablations/plan/modes.h"
#include "files/json_file.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

// A plan as its file holds it. Throws std::invalid_argument where it does not follow the schema, contradicts itself, or
// names an optimization that this program does not know; `where` begins the message.
Plan plan_from_json(const files::Json& json, const std::string& where);

// The size of the plan's and of a rung's steps, and the rung that guards it: of its own, else the plan's. Only a
// cumulative ladder has a reference for every rung; none for the reference itself.
Shape shape_of(const Plan& plan);
Shape shape_of(const Plan& plan, size_t rung);
std::optional<size_t> reference_of(const Plan& plan, size_t rung);

// "+ flash attention" where the rung adds to others. `title`: the rung's, or what its proof has made of it.
std::string label_of(const Plan& plan, size_t rung, const std::string& title);

// A rung's run in a repeat, with its id.
PlannedRun run_of(const std::vector<Rung>& rungs, size_t rung, int64_t repeat);

// Every repeat measures every planned rung once. Orders are rows of a Williams design (Williams 1949), rungs and rows
// shuffled with order_seed, and after each row its mirror image: over every two repeats all rungs have the same mean
// place, so that linear drift cancels; over 2n of them (n for even n) every rung comes equally often at every place and
// after every other one.
std::vector<PlannedRun> interleave(const std::vector<Rung>& rungs, int64_t repeats, uint64_t order_seed);

// Whether a planned rung is on a GPU: that is the study's device, then.
bool uses_cuda(const Plan& plan);

}  // namespace ablations
