// The plan of a study (results/plan.h): what is asked of it, and the order of its runs.
#pragma once

#include "ablations/plan/ladder_file.h"
#include "ablations/plan/modes.h"
#include "files/json_file.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

// A plan from its file's JSON. Throws std::invalid_argument if it violates the schema, contradicts itself, or names an
// unknown optimization. `where` begins the message.
Plan plan_from_json(const files::Json& json, const std::string& where);

// shape_of: the size of the plan's steps, or of a rung's. reference_of: the rung that guards a rung. None for the
// reference itself. Only a cumulative ladder has one for every other rung.
Shape shape_of(const Plan& plan);
Shape shape_of(const Plan& plan, size_t rung);
std::optional<size_t> reference_of(const Plan& plan, size_t rung);

// "+ flash attention" where the rung adds to others. `title`: the rung's, or what its proof has made of it.
std::string label_of(const Plan& plan, size_t rung, const std::string& title);

// "gpt2-cpu-20261121T110500Z": a name, and what utc_now() says, without what a file name should not have.
std::string study_id(const std::string& name, const std::string& created);

// A rung's run in a repeat, with its id.
PlannedRun run_of(const std::vector<Rung>& rungs, size_t rung, int64_t repeat);

// Every repeat measures every planned rung once. Orders are rows of a Williams design (Williams 1949), each followed by
// its mirror image. order_seed shuffles rungs and rows. Over two repeats all rungs have the same mean place, so linear
// drift cancels. Over 2n repeats (n for even n) every rung is equally often at every place and after every other rung.
std::vector<PlannedRun> interleave(const std::vector<Rung>& rungs, int64_t repeats, uint64_t order_seed);

// Whether a planned rung is on a GPU: that is the study's device, then.
bool uses_cuda(const Plan& plan);

}  // namespace ablations
