// A noisy bisection: which commit to run next, and when to end, by what the runs so far say (suspects.h).
#pragma once

#include "harness/stats/suspects.h"

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

namespace harness {

// The two places to run next: ends, or places at quartiles of where a change may be. They tell most of which way it is
// (mutual information, by the bound of Kolchinsky and Tracey 2017, "Estimating mixture entropy with pairwise
// distances"). The same suspects give the same pair.
std::pair<size_t, size_t> choose_pair(const Suspects& suspects, std::span<const double> weights);

// What ends a search. `same`: GOOD and BAD differ by less than what matters. `open`: all runs are made.
enum class Bisected { same, one, two, steps, open };

// What a search does after `runs`: it ends with a verdict, or makes the runs of `next`. First come pairs of GOOD and
// BAD. same: the 95 % interval of their difference lies within `min_effect`, 0.02 for 2 %. `one` needs a probability of
// 0.95, `two` and `steps` one of 0.99: docs/bisect.md shows how often each is right. open: most_runs are made.
struct SearchStep {
  std::optional<Bisected> verdict;
  std::pair<size_t, size_t> next;
  Suspects suspects;
  Estimate whole;  // ln(BAD / GOOD), from their pairs
};
SearchStep search_step(std::span<const PlaceTime> runs, std::span<const double> weights, double min_effect,
                       size_t most_runs);

}  // namespace harness
