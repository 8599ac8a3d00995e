// Short trainings that differ only in their learning rate, and what each rate's losses say of it:
// results/schemas/lr_sweep.v1.json.
#pragma once

#include "results/training.h"
#include "results/words.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace results {

enum class RateVerdict { too_low, good, too_high };
template <>
struct Names<RateVerdict> {
  static constexpr std::array list{"too low", "good", "too high"};
};

// Why; training/rate_verdict.h has the rules.
enum class RateReason { falls_slowly, still_falling, near_the_best, falls_behind, oscillates, diverged };
template <>
struct Names<RateReason> {
  static constexpr std::array list{"falls slowly", "still falling", "near the best",
                                   "falls behind", "oscillates",    "diverged"};
};

// The last part of a training's losses, with the straight line that fits them best. All in nats.
struct LossesAtTheEnd {
  double mean = 0;   // `held_out`; of a sweep without, the losses' mean
  double fall = 0;   // of the line, from the part's first step to its last; below 0: it rises
  double swing = 0;  // standard deviation of the losses about the line

  LADDER_FIELDS(LossesAtTheEnd, mean, fall, (swing, from_0))
};

struct SweptRate {
  TrainingSchedule learning_rate;
  std::vector<std::optional<double>> losses;  // of each step, in nats; none: not finite
  std::string not_finite;                     // what ended it early: "the loss of step 12"; empty: nothing
  std::optional<double> held_out;             // loss of held-out batches after the last step, the same for all rates

  // What follows from them.
  std::optional<LossesAtTheEnd> end;  // none: it ended early
  RateVerdict verdict = RateVerdict::good;
  RateReason reason = RateReason::near_the_best;
  std::string words;  // the reason with its figures

  void check(const std::string& where) const {
    if (learning_rate.peak <= 0) throw std::invalid_argument(where + ": learning_rate.max must be above 0");
  }

  LADDER_FIELDS(SweptRate, learning_rate, (losses, {.items = 1, .most_items = 10000}), not_finite, (held_out, absent),
                end, verdict, reason, words)
};

struct LearningRateSweep {
  static constexpr auto kind = "lr_sweep";
  static constexpr auto about =
      "Short trainings that differ only in their learning rate, and what each rate's losses say of it";

  NamedDevice device;
  Training training;                // of the lowest rate; the others differ in learning_rate only
  int64_t planned = 1;              // rates; where it was interrupted fewer are there
  std::vector<SweptRate> rates;     // from low to high
  std::optional<double> untrained;  // the held-out loss of rate 0

  // The loss without training that a rate's end is compared with; of older sweeps its first loss.
  [[nodiscard]] std::optional<double> loss_before(const SweptRate& rate) const {
    return untrained ? untrained : rate.losses.front();
  }

  // What follows from them.
  int64_t end_steps = 1;       // of each training, those that are its end
  double margin = 0;           // nats; a smaller difference is none
  std::optional<size_t> best;  // of `rates`, that with the lowest losses at the end; none: none learns
  Said said;

  LADDER_FIELDS(LearningRateSweep, device, training, (planned, {.least = 1, .most = 100}),
                (rates, {.items = 1, .most_items = 100}), (untrained, absent), (end_steps, from_1), margin, best, said)
};

LADDER_COMPILED_ONCE(LearningRateSweep)

}  // namespace results
