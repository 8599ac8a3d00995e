// One plan on several machines. Each machine makes the same plan itself, so no file is passed around. It measures its
// shard: every count-th repeat as a whole, because speedups are paired within a repeat. The plans contain no time and
// no random number, and their id is a hash of their content.
#pragma once

#include "ablations/plan/make_plan.h"
#include "files/json_file.h"

#include <string>
#include <vector>

namespace ablations {

// "2/4": the second of four. Throws std::invalid_argument for anything else than i/n, 1 <= i <= n.
Shard shard_of(const std::string& text);

// The runs of the plan's shard, in order; all runs of a plan without one.
std::vector<PlannedRun> runs_to_make(const Plan& plan);

// "gpt2-5f0c36a1b2d4": the same for the same plan wherever and whenever it is made. Shards and the places of files do
// not count.
std::string id_by_content(const Plan& plan);

// How a record names its plan: {"id": ..., "sha256": ...}. All shards of a plan and the merged study have the same
// identity. So have a quick look and the whole ladder after it. Later versions compute the same, as long as new fields
// of plans and recipes are optional.
files::Json identity_of(const Plan& plan);

// One line for each field in which the plans differ: "workload/batch: 2 against 4". Empty: the same plan; shards and
// the places of files do not count.
std::vector<std::string> plan_differences(const Plan& plan, const Plan& other);

}  // namespace ablations
