// A machine whose timing is known: what its runs take is programmed, with the troubles that real machines have.
// Verdicts are tried against it, and the table of docs/power.md is made with it.
#pragma once

#include "harness/stats/stats.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace simulated {

struct Troubles {
  std::string name;
  double run_noise = 0.01;         // standard deviation between runs, of the logarithm
  bool heavy_tails = false;        // Student's t with 2 degrees of freedom in place of the normal distribution
  double step_noise = 0.02;        // of the steps within a run
  double slow_steps = 0.05;        // share of the steps that take half as long again
  double slow_clock_share = 0;     // of the runs, at a clock that is
  double slow_clock = 1;           // so much slower
  double drift = 0;                // over the whole study: 0.1 for 10 % slower at its end
  double jump = 0, jump_at = 0.5;  // from this part of the study on everything takes so much longer
};

class Machine {
 public:
  Machine(Troubles troubles, uint64_t seed) : troubles_(std::move(troubles)), random_(seed) {}

  // Median step of a run of `steps` steps of true_ms each, at `place` in [0, 1] of the study.
  double run(double true_ms, double place, int64_t steps = 21) {
    double level = true_ms * std::exp(troubles_.run_noise * draw()) * (1 + troubles_.drift * place);
    if (troubles_.jump != 0 && place >= troubles_.jump_at) level *= 1 + troubles_.jump;
    if (uniform() < troubles_.slow_clock_share) level *= troubles_.slow_clock;
    std::vector<double> step_ms;
    for (int64_t i = 0; i < steps; ++i) {
      const double slow = uniform() < troubles_.slow_steps ? 1.5 : 1.0;
      step_ms.push_back(level * slow * std::exp(troubles_.step_noise * normal_(random_)));
    }
    return harness::median(step_ms);
  }

 private:
  double uniform() { return std::uniform_real_distribution<double>()(random_); }
  double draw() { return troubles_.heavy_tails ? heavy_(random_) : normal_(random_); }

  Troubles troubles_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::student_t_distribution<double> heavy_{2};
};

struct Pairs {
  std::vector<double> base, head;
};

// What a gate does: pairs in the order base head, head base, ...; head takes 1 + slowdown as long.
inline Pairs study(Machine& machine, double slowdown, int64_t pairs) {
  Pairs made;
  const auto last = static_cast<double>(2 * pairs - 1);
  for (int64_t pair = 0; pair < pairs; ++pair) {
    for (int64_t second = 0; second < 2; ++second) {
      const double place = static_cast<double>(2 * pair + second) / last;
      const bool head = (pair % 2 == 0) == (second == 1);
      (head ? made.head : made.base).push_back(machine.run(head ? 100 * (1 + slowdown) : 100, place));
    }
  }
  return made;
}

inline std::vector<Troubles> all_troubles() {
  return {{.name = "1 % noise"},
          {.name = "heavy tails", .heavy_tails = true},
          {.name = "two clocks", .run_noise = 0.003, .slow_clock_share = 0.3, .slow_clock = 1.03},
          {.name = "10 % drift", .drift = 0.1},
          {.name = "a 10 % jump", .jump = 0.1, .jump_at = 0.4}};
}

}  // namespace simulated
