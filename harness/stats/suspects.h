// Which commit of a list changed a program's time, from noisy runs: every commit has a probability, which follows from
// all runs. git bisect believes one verdict for each step instead. Noisy bisection: Horstein 1963, "Sequential
// transmission using noiseless feedback"; Burnashev and Zigangirov 1974, "An interval estimation problem for controlled
// observations"; Ben-Or and Hassidim 2008, "The Bayesian learner is optimal for noisy binary search".
//
// The model: ln(time) of a run = pace of the machine + changes up to its commit + noise. The pace is a random walk. Its
// steps and the noise have Student's distribution with 8 degrees of freedom, so jumps and outliers weigh little. Rates
// of the walk from almost none to the noise's own are weighed by how well they explain the runs. There may be no
// change, one, two, or a little at every commit. The size of one or two changes has a moment prior, which is 0 at size
// 0 (Johnson and Rossell 2010, "On the use of non-local prior densities in Bayesian hypothesis tests"). Without it a
// second change of no size could never be excluded.
#pragma once

#include "harness/stats/stats.h"

#include <cstddef>
#include <span>
#include <vector>

namespace harness {

// A run of a place in the list: 0 is GOOD, the last is BAD.
struct PlaceTime {
  size_t place;
  double log_time;
};

// A change from place - 1 to place; its size is of ln(time), with an interval of `confidence`.
struct PlaceChange {
  size_t place = 0;
  double size = 0;
  Interval interval = {0, 0};
};

// One way in which the time may have changed along the list. sizes: of the changes between measured places.
struct ChangeWay {
  enum class Kind { none, one, two, steps } kind;
  double probability = 0;        // before the runs, and then after them
  size_t first = 0, second = 0;  // of one or two changes: between which measured places
  std::vector<double> sizes = {};
  double pace = 0;  // of the machine at the last run, if it is so
};

// The probabilities of none, two and steps, and the sum of `one`, add up to 1.
struct Suspects {
  double none = 0;
  std::vector<double> one;           // [k]: of one change, at place k
  double two = 0, best_two = 0;      // of two changes; of the pair below
  double steps = 0;                  // of a little at every commit
  PlaceChange alone, first, second;  // the most probable one change, and pair
  double noise = 0;                  // of a run: scale of ln(time)

  std::vector<ChangeWay> ways;     // what choose_pair needs
  std::vector<size_t> measured;    // places, in order
  double pace = 0, pace_step = 0;  // variance of the pace at the last run, and of its next step
};

// What `runs` say, which stand in the order in which they were made. weights[k]: how many commits there are from place
// k - 1 to place k; more than 1 if those between cannot be measured. weights[0] does not count. Both ends of the list
// must have two runs or more.
Suspects suspects_of(std::span<const PlaceTime> runs, std::span<const double> weights);

}  // namespace harness
