// Which of several ways is the fastest, by rounds in which all of them took their turn.
//
// A GPU that has been idle is cool: it boosts, and gets slower until it has reached its power limit. So times of
// different rounds cannot be compared, nor the first of a round with its last. Each way is compared with the usual one
// of the same round, rounds go forwards and backwards in turn, and the median of the ratios decides.
#pragma once

#include "harness/stats/stats.h"

#include <cstddef>
#include <vector>

namespace model {

// What a coin decides stays within 3 %: another way than the usual one must be faster by more.
constexpr double least_gain = 1.03;

// The way that takes the i-th turn of a round.
inline size_t turn(size_t round, size_t i, size_t ways) { return round % 2 == 0 ? i : ways - 1 - i; }

// rounds[r][w]: what way w took in round r, positive. At least one round.
inline size_t fastest_way(const std::vector<std::vector<double>>& rounds, size_t usual) {
  size_t fastest = usual;
  double best = 1 / least_gain;
  for (size_t way = 0; way < rounds.front().size(); ++way) {
    std::vector<double> ratios;
    for (const std::vector<double>& times : rounds) ratios.push_back(times[way] / times[usual]);
    if (const double ratio = harness::median(ratios); ratio < best) {
      best = ratio;
      fastest = way;
    }
  }
  return fastest;
}

}  // namespace model
