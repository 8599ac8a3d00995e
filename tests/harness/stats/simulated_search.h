// A search for the commit that made a program slower, on a machine whose timing is programmed.
#pragma once

#include "harness/stats/bisection.h"
#include "tests/harness/simulated_machine.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace simulated {

struct CommitList {
  size_t commits = 64;
  std::vector<std::pair<size_t, double>> changes;  // place, and how much longer than the place before it takes
  double steps = 0;                                // from GOOD to BAD, the same at every commit
  std::set<size_t> broken = {};                    // places that cannot be measured

  [[nodiscard]] double log_time(size_t place) const {
    double sum = std::log1p(steps) * static_cast<double>(place) / static_cast<double>(commits);
    for (const auto& [at, size] : changes) sum += place >= at ? std::log1p(size) : 0;
    return sum;
  }
};

struct Searched {
  harness::SearchStep last;
  std::vector<size_t> alive;  // places that were not found broken
  size_t runs = 0, places = 0;

  // Of a verdict of one or two changes: where they are.
  [[nodiscard]] std::vector<size_t> found() const {
    if (last.verdict == harness::Bisected::one) return {alive[last.suspects.alone.place]};
    if (last.verdict == harness::Bisected::two) {
      return {alive[last.suspects.first.place], alive[last.suspects.second.place]};
    }
    return {};
  }
};

// What `ladder bisect` does. Drift and jump of `troubles` are those of 60 runs.
inline Searched bisect(const CommitList& list, const Troubles& troubles, uint64_t seed, size_t most_runs = 200) {
  Machine machine(troubles, seed);
  Searched searched;
  for (size_t place = 0; place <= list.commits; ++place) searched.alive.push_back(place);
  std::vector<harness::PlaceTime> runs;
  std::set<size_t> places;
  for (bool odd = false;; odd = !odd) {
    std::vector<double> weights(searched.alive.size(), 1);
    for (size_t k = 1; k < weights.size(); ++k)
      weights[k] = static_cast<double>(searched.alive[k] - searched.alive[k - 1]);
    std::vector<harness::PlaceTime> among = runs;
    for (auto& run : among) {
      run.place = static_cast<size_t>(std::ranges::lower_bound(searched.alive, run.place) - searched.alive.begin());
    }
    searched.last = harness::search_step(among, weights, 0.02, most_runs);
    if (searched.last.verdict) break;
    size_t pair[]{searched.alive[searched.last.next.first], searched.alive[searched.last.next.second]};
    if (odd) std::swap(pair[0], pair[1]);
    if (std::erase_if(searched.alive, [&](size_t place) {
          return list.broken.contains(place) && (place == pair[0] || place == pair[1]);
        }) > 0) {
      continue;
    }
    for (const size_t place : pair) {
      const double at = static_cast<double>(runs.size()) / 60;
      runs.push_back({place, std::log(machine.run(100 * std::exp(list.log_time(place)), at))});
      places.insert(place);
    }
  }
  searched.runs = runs.size();
  searched.places = places.size();
  return searched;
}

// The place that `git bisect` ends at: eight pairs a step, the commit beside GOOD, bad if the median of the pairs'
// ratios lies above half of the slowdown, which it knows.
inline size_t git_bisect(const CommitList& list, const Troubles& troubles, uint64_t seed) {
  Machine machine(troubles, seed);
  size_t good = 0, bad = list.commits, runs = 0;
  while (bad - good > 1) {
    const size_t middle = (good + bad) / 2;
    std::vector<double> ratios;
    for (int pair = 0; pair < 8; ++pair) {
      double log_time[2];
      for (int i = 0; i < 2; ++i) {
        const size_t side = (pair + i) % 2;
        const double at = static_cast<double>(runs++) / 60;
        log_time[side] = std::log(machine.run(100 * std::exp(list.log_time(side == 0 ? 0 : middle)), at));
      }
      ratios.push_back(log_time[1] - log_time[0]);
    }
    (harness::median(ratios) > list.log_time(list.commits) / 2 ? bad : good) = middle;
  }
  return bad;
}

}  // namespace simulated
