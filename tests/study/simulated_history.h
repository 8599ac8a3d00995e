// Histories of ladders whose noise and changes are known: what `ladder history` calls slower is tried against them, and
// the tables of docs/power.md are made with them. A night is a study.
#pragma once

#include "study/archive/series.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

namespace simulated {

constexpr size_t rungs_of_a_ladder = 7;
constexpr double least_effect = 0.02;

using Rungs = std::vector<std::vector<double>>;  // logarithms of the medians of each rung's studies

// Nothing changes; `noise` is the standard deviation of a study's median.
inline Rungs unchanged_ladder(size_t nights, double noise, std::mt19937_64& random) {
  std::normal_distribution<double> logarithm(0, noise);
  Rungs rungs(rungs_of_a_ladder, std::vector<double>(nights));
  for (auto& rung : rungs) std::ranges::generate(rung, [&] { return logarithm(random); });
  return rungs;
}

// What is said of each rung after the first `nights`.
inline std::vector<study::SeriesVerdict> verdicts_after(size_t nights, const Rungs& rungs) {
  std::vector<harness::Changes> family(rungs.size());
  std::ranges::transform(rungs, family.begin(), [&](const std::vector<double>& rung) {
    return harness::find_changes(std::span(rung).first(nights), rungs.size());
  });
  return study::verdicts_of(family, least_effect);
}

inline bool is_slower(const study::SeriesVerdict& verdict) { return verdict.trend == results::Trend::slower; }

// Of ladders in which nothing changes, looked at each night from the sixth to the fortieth: the share that is called
// slower once or more.
inline double false_alarms(int ladders, double noise) {
  std::mt19937_64 random(7);
  int alarms = 0;
  for (int i = 0; i < ladders; ++i) {
    const Rungs rungs = unchanged_ladder(40, noise, random);
    bool alarm = false;
    for (size_t nights = 6; nights <= 40 && !alarm; ++nights) {
      alarm = std::ranges::any_of(verdicts_after(nights, rungs), is_slower);
    }
    alarms += alarm ? 1 : 0;
  }
  return static_cast<double>(alarms) / ladders;
}

// Of ladders with 1 % noise of which the first `slowed` rungs take 5 % longer in the last `since` of so many nights:
// the share whose first rung is called slower.
inline double found(int ladders, size_t slowed, size_t since, size_t nights) {
  std::mt19937_64 random(7);
  int found = 0;
  for (int i = 0; i < ladders; ++i) {
    Rungs rungs = unchanged_ladder(nights, 0.01, random);
    for (size_t rung = 0; rung < slowed; ++rung) {
      for (double& night : std::span(rungs[rung]).last(since)) night += std::log(1.05);
    }
    found += is_slower(verdicts_after(nights, rungs).front()) ? 1 : 0;
  }
  return static_cast<double>(found) / ladders;
}

}  // namespace simulated
