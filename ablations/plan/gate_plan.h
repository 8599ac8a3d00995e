// The plan of a gate and the order of its runs. Every recipe has a rung of base and one of head. Without base, head is
// compared with a stored baseline.
#pragma once

#include "ablations/plan/make_plan.h"

#include <string>
#include <vector>

namespace ablations {

// Adds the arms of a rung, "base-NAME" and "head-NAME", with the programs that run them. Adds only head's if `base` is
// empty.
void add_arms(std::vector<Rung>& arms, const Rung& rung, const std::string& base, const std::string& head);

// The order is base head, head base, ..., so a slow drift affects both alike. If `blocked`, all of base comes first.
// Several recipes take turns in every round; each round begins with the next recipe.
std::vector<PlannedRun> abba(const std::vector<Rung>& arms, int64_t repeats, bool blocked);

bool is_base(const std::vector<Rung>& arms, size_t arm);

// Whether all of base's runs come before the first of head's.
bool is_blocked(const Plan& plan);

}  // namespace ablations
