// The plan of a study (results/plan.h): what is asked of it, and the order of its runs.
#pragma once

#include "files/json_file.h"
#include "results/plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

// The modes' names on the command line and in documents.
std::vector<std::string> mode_names();
// Throws std::invalid_argument; `where` begins the message.
Mode mode_of(const std::string& name, const std::string& where);

// `rung.name`, or its default.
std::string name_of(const Rung& rung);

// Its title as a ladder shows it: "+ bf16 autocast".
std::string label_of(const Rung& rung);

// Index of the rung from which speedups count.
size_t reference_rung(const std::vector<Rung>& rungs);

// The most timed steps that a run may take.
int64_t most_timed_steps(int64_t timed_steps, double least_window_s);

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

// The plan of a gate and the order of its runs. Every recipe has a rung of base and one of head. Without base, head is
// compared with a stored baseline.

// Adds the arms of a rung, "base-NAME" and "head-NAME", with the programs that run them. Adds only head's if `base` is
// empty.
void add_arms(std::vector<Rung>& arms, const Rung& rung, const std::string& base, const std::string& head);

// The order is base head, head base, ..., so a slow drift affects both alike. If `blocked`, all of base comes first.
// Several recipes take turns in every round; each round begins with the next recipe.
std::vector<PlannedRun> abba(const std::vector<Rung>& arms, int64_t repeats, bool blocked);

bool is_base(const std::vector<Rung>& arms, size_t arm);

// Whether all of base's runs come before the first of head's.
bool is_blocked(const Plan& plan);

// A quick look at a ladder: its reference and its last rung, four times each. The whole ladder goes on from it in the
// same folder.

constexpr int64_t quick_repeats = 4;

// Leaves out of a cumulative plan what a quick look does not measure.
void make_quick(Plan& plan);

// The plan of the whole ladder after a quick look. It keeps the quick runs and adds the missing repeats, each with
// every rung once. So every pair of runs is still of one repeat. The rungs left out before have four pairs fewer.
Plan whole_plan(const Plan& quick);

}  // namespace ablations
