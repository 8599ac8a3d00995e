// Compares the records of two sides, recipe by recipe: time, loss and memory of `head` over those of `base`. First
// checks whether the two may be compared at all.
#pragma once

#include "harness/stats/verdict.h"
#include "results/comparison.h"
#include "study/gate/side.h"

namespace ablations {

struct CompareOptions {
  double min_effect = harness::usual_min_effect;
  bool force = false;
  bool interleaved = false;  // the two sides' runs were made in turn; else the comparison warns of it
};

inline constexpr const char* not_interleaved =
    "not interleaved: a change of the machine between the two sides' runs looks like a change of the program";

// Samples are matched by recipe and size, then by recipe alone; where each side has one only, those two. Runs are
// paired in order, as many as both have. Throws std::invalid_argument where nothing matches, harness::Unfit where
// records that were matched were measured under different circumstances (results/setting.h) and `force` is
// not given: with it they stand in the result under "forced".
Comparison compare_sides(const Side& base, const Side& head, const CompareOptions& options);

}  // namespace ablations
