// One rung's part of a study: what its plan and its own runs say. What it is beside other rungs: analysis.h.
#pragma once

#include "ablations/plan/plan.h"
#include "ablations/study/attribution.h"
#include "ablations/study/measured.h"
#include "harness/json_file.h"
#include "harness/stats.h"

#include <string>

namespace ablations {

// "lo" and "hi"; null where the estimate has no interval.
harness::Json bounds(const harness::Estimate& estimate);

// The median step of each repeat's run, ms.
Times times_of(const RunsByRepeat& runs);

// Time before / time after, paired by repeat, with its interval (harness/stats.h); null where they share no repeat.
harness::Json speedup(const RunsByRepeat& before, const RunsByRepeat& after);

// The rung (study.v1.json, "rungs") as its plan and its own runs show it, judged without any other; no times yet.
harness::Json rung_by_itself(const Plan& plan, size_t index, const Measured& measured);

// What disturbed its runs, and joules per token where a GPU could tell.
void add_conditions(const RunsByRepeat& runs, harness::Json& rung);

// Whether repeats of one recipe and seed came to different losses. Of losses that are not finite, which are judged
// elsewhere, false.
bool losses_differ(const RunsByRepeat& runs);

// Time, memory and MFU of a rung that is proven. `gpu`: its name; empty: none.
void add_numbers(const Rung& rung, const RunsByRepeat& runs, const std::string& gpu, harness::Json& json);

}  // namespace ablations
