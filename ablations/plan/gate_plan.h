// The plan of a gate: for every recipe a rung of base and one of head, or one of head alone, which is compared with a
// stored baseline; and the order of their runs.
#pragma once

#include "ablations/plan/plan.h"

#include <string>
#include <vector>

namespace ablations {

// Adds the arms of a ladder's rung, named "base-NAME" and "head-NAME", each with the program that runs it; no base:
// head's alone.
void add_arms(std::vector<Rung>& arms, const Rung& rung, const std::string& base, const std::string& head);

// base head, head base, ...: what drifts slowly strikes both alike. Blocked: all of base first. With several recipes
// one after the other in every round, each round begun by the next.
std::vector<PlannedRun> abba(const std::vector<Rung>& arms, int64_t repeats, bool blocked);

bool is_base(const std::vector<Rung>& arms, size_t arm);

// All of base's runs were made before the first of head's.
bool is_blocked(const Plan& plan);

}  // namespace ablations
