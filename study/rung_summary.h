// One rung's part of a study: what its plan and its own runs say. What it is beside other rungs: analysis.h.
#pragma once

#include "ablations/plan/make_plan.h"
#include "results/study.h"
#include "study/attribution.h"
#include "study/measured.h"

#include <optional>
#include <string>

namespace study {

// The median step of each repeat's run, ms.
Times times_of(const RunsByRepeat& runs);

// Time before / time after, with its interval (harness/stats/stats.h): paired by repeat, none where they share no
// repeat. Runs of logs are no pairs.
std::optional<Ratio> speedup(const RunsByRepeat& before, const RunsByRepeat& after);

// The rung as its plan and its own runs show it, judged without any other; no times yet.
StudyRung rung_by_itself(const Plan& plan, size_t index, const Measured& measured);

// What disturbed its runs; joules per token and the clock if the GPU reports them.
void add_conditions(const RunsByRepeat& runs, StudyRung& rung);

// Whether repeats of one recipe and seed came to losses that are more than `allowed` nats apart. Of losses that are not
// finite, which are judged elsewhere, false.
bool losses_differ(const RunsByRepeat& runs, double allowed);

// The rung below rung i of a ladder: the last one of this program before it that applies here.
std::optional<size_t> rung_below(const Plan& plan, size_t i);

// Whether rungs of ours differ in how batches come to be.
bool is_about_batches(const Plan& plan);

// What the rung's batches cost; none where one of its records does not say.
std::optional<RungBatches> batches_of(const RunsByRepeat& runs);

// Time, memory and MFU of a rung that is proven. `gpu`: its name; empty: none.
void add_numbers(const Rung& planned, const RunsByRepeat& runs, const std::string& gpu, StudyRung& rung);

}  // namespace study
