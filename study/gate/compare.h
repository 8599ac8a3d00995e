// Compares the records of two sides, recipe by recipe: time, loss and memory of `head` over those of `base`. First
// checks whether the two may be compared at all.
#pragma once

#include "harness/stats/verdict.h"
#include "results/comparison.h"
#include "study/gate/side.h"

namespace study {

struct CompareOptions {
  double min_effect = harness::usual_min_effect;
  bool force = false;
  bool interleaved = false;  // the two sides' runs were made in turn; else the comparison warns of it
};

inline constexpr const char* not_interleaved =
    "not interleaved: a change of the machine between the two sides' runs looks like a change of the program";

// Matches samples by recipe and size, then by recipe alone. If each side has one sample, those two match. Pairs runs in
// order, as many as both have. Throws std::invalid_argument if nothing matches. Throws harness::Unfit if matched
// records have different circumstances (results/setting.h). With `force` the result lists them under "forced" instead.
Comparison compare_sides(const Side& base, const Side& head, const CompareOptions& options);

}  // namespace study
