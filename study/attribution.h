// What each optimization is worth, in the modes that measure more than one order of switching them on.
//   leave-one-out    time without it / time of everything on
//   one-at-a-time    time of the reference / time with it alone
//   factorial        exp of its Shapley value: what it takes off the logarithm of the time, averaged over all orders of
//                    switching the k factors on (L. S. Shapley, "A value for n-person games", 1953):
//                    phi_i = sum over S without i of |S|! (k-|S|-1)! / k! (ln t(S) - ln t(S+i))
//                    after these, from the same runs: the results of the two modes above, and "cumulative", the time
//                    without it / with it when those before it in the ladder are on and those after it off
// Shapley values are computed within each repeat and averaged with the mean. Speedups have another center
// (harness/stats/stats.h). Only with the mean do values add up to the logarithm of the whole speedup.
#pragma once

#include "ablations/plan/make_plan.h"
#include "harness/stats/stats.h"
#include "results/study.h"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace study {

// A rung's median step in ms, by repeat; only of rungs whose number counts.
using Times = std::map<int64_t, double>;

// Returns one entry for each optimization, in the ladder's order, and each method of the mode. Titles are empty. Other
// modes give no entries. `times` has one entry for each rung; it is empty if the rung has no valid number. `reasons`
// says why.
std::vector<Worth> attribution(const Plan& plan, const std::vector<Times>& times,
                               const std::vector<std::string>& reasons);

// log_times[S]: ln t of the subset whose bits are S, 2^k of them. Returns the k values phi_i.
std::vector<double> shapley_values(std::span<const double> log_times);

// Uses the pairs that both have.
std::optional<harness::Estimate> paired(const Times& before, const Times& after);

}  // namespace study
