// How the losses of two right 16-bit programs part: rounding differs, training amplifies it step by step, and now and
// then a step is so sensitive that they are far apart for a few steps, to one side and then to the other. The sizes are
// chosen a little larger than what was seen in 13 steps of GPT-2 124M with products rounded to bfloat16 (B=1 T=256)
// when the attention was computed in another way: at seed 1 0.04 and 0.03 nats at steps 5 and 6, then up to 0.011; at
// seed 2 never more than 0.001. How often a run has such a step, and how far later steps drift, are assumptions.
#pragma once

#include "study/guard.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace simulated {

// Deviations of one run's losses, in nats. `shift`: what a wrong program adds to each step but the first.
inline std::vector<double> deviations(int64_t steps, double shift, uint64_t seed) {
  constexpr double growth = 4e-4, most = 0.03, kept = 0.7;  // nats a step; nats; correlation from step to step
  constexpr double sensitive_runs = 1.0 / 3, height = 0.04, fades = -0.7;
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  std::vector<double> result;
  double wander = normal(random);
  for (int64_t step = 0; step < steps; ++step) {
    wander = kept * wander + std::sqrt(1 - kept * kept) * normal(random);
    const double spread = std::min(growth * static_cast<double>(step), most);
    result.push_back(spread * wander + (step > 0 ? shift : 0));
  }
  if (uniform(random) < sensitive_runs) {
    const auto first = static_cast<int64_t>(uniform(random) * static_cast<double>(steps));
    double jump = height * -std::log(1 - uniform(random)) * (uniform(random) < 0.5 ? -1 : 1);
    for (int64_t step = first; step < steps; ++step, jump *= fades) result[static_cast<size_t>(step)] += jump;
  }
  return result;
}

struct Voided {
  double by_guard = 0, by_worst_step = 0;  // shares of the studies
};

// Of so many studies whose rung has `runs` runs: how often the guard calls one void, and how often the furthest step
// would, were it held to `step_tolerance`.
inline Voided voided(int studies, int64_t runs, int64_t steps, double shift, double tolerance, double step_tolerance) {
  Voided share;
  const std::vector<double> reference(static_cast<size_t>(steps), 8.0);
  for (int study = 0; study < studies; ++study) {
    bool by_guard = false, by_step = false;
    for (int64_t run = 0; run < runs; ++run) {
      std::vector<double> losses = deviations(steps, shift, static_cast<uint64_t>(study * runs + run) + 1);
      std::ranges::transform(losses, losses.begin(), [](double x) { return 8.0 + x; });
      const study::Guard verdict = study::guard(losses, reference, tolerance, 0);
      by_guard |= !verdict.passed;
      by_step |= *verdict.max_deviation > step_tolerance;
    }
    share.by_guard += by_guard ? 1.0 / studies : 0;
    share.by_worst_step += by_step ? 1.0 / studies : 0;
  }
  return share;
}

// Of so many studies, each of one run of 16 steps with noise of mean zero at each but the first, as a program has whose
// gradients are noisy: the share that the guard calls void.
inline double voided_by_noise(int studies, double noise, double tolerance) {
  const std::vector<double> reference(16, 8.0);
  double share = 0;
  for (int study = 0; study < studies; ++study) {
    std::mt19937_64 random(static_cast<uint64_t>(study) + 1);
    std::normal_distribution<double> normal(8.0, noise);
    std::vector<double> losses = reference;
    std::generate(losses.begin() + 1, losses.end(), [&] { return normal(random); });
    share += study::guard(losses, reference, tolerance, 0).passed ? 0 : 1.0 / studies;
  }
  return share;
}

// Losses of two commands. Shares of the loss.
struct Commands {
  double spread = 0;    // runs of either differ so much (standard deviation), beside what follows
  bool drifts = false;  // they drift apart as above, to `spread` at the 16th line; else each line has its own noise
  double rounding = 0;  // all runs of the second drift alike, to this at the 16th line
  double shift = 0;     // what the second is off
  int64_t repeats = 0;
};

// Runs of 17 lines with losses about 4.
inline study::RunsByRepeat command_runs(const Commands& of, bool second, std::mt19937_64& random) {
  constexpr int64_t lines = 17;
  constexpr double loss = 4, drifted = 4e-4 * (lines - 1);  // the spread of `deviations` at the last line
  std::normal_distribution<double> normal;
  const std::vector<double> rounded = deviations(lines, 0, random());
  study::RunsByRepeat runs;
  for (int64_t repeat = 1; repeat <= of.repeats; ++repeat) {
    const std::vector<double> apart = deviations(lines, 0, random());
    study::RunData run;
    run.command.emplace();
    for (int64_t line = 0; line < lines; ++line) {
      run.command->steps.push_back(line);
      if (line == 0) continue;  // intervals begin there
      const auto i = static_cast<size_t>(line);
      const double own = of.spread * (of.drifts ? apart[i] / drifted : normal(random));
      const double others = second ? of.shift + of.rounding * rounded[i] / drifted : 0;
      run.losses.push_back(loss * (1 + own + others));
      run.loss_steps.push_back(std::ssize(run.losses));
    }
    runs[repeat] = std::move(run);
  }
  return runs;
}

struct CommandsJudged {
  double failed = 0, not_compared = 0;  // shares of the studies
};

inline CommandsJudged judged(int studies, const Commands& of) {
  CommandsJudged share;
  for (int study = 0; study < studies; ++study) {
    std::mt19937_64 random(static_cast<uint64_t>(study) + 1);
    const study::RunsByRepeat reference = command_runs(of, false, random), runs = command_runs(of, true, random);
    const study::CommandGuard guard = study::guard_command(runs, reference);
    share.not_compared += guard.verdict ? 0 : 1.0 / studies;
    share.failed += guard.verdict && !guard.verdict->passed ? 1.0 / studies : 0;
  }
  return share;
}

}  // namespace simulated
