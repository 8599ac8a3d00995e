// Rungs of a ladder, each trained with several seeds (results/schemas/to_loss.v1.json). They tell how long a validation
// loss takes to reach, and whether the trainings end as well as the reference's.
#pragma once

#include "harness/stats/verdict.h"
#include "results/common.h"
#include "results/plan.h"
#include "results/training.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace results {

// How a rung's losses at the end compare with the reference's.
template <>
struct Names<harness::Quality> {
  static constexpr std::array list{"same quality", "worse", "unclear", "too few seeds"};
};

// A validation loss.
struct LossAt {
  int64_t step = 1, tokens = 0;
  double seconds = 0;  // of all steps so far, without validation
  double loss = 0;     // nats

  LADDER_FIELDS(LossAt, (step, {.least = 1, .most = 1000000}), (tokens, from_0), (seconds, {.above = 0, .most = 1e12}),
                (loss, {.least = -1000000, .most = 1000000}))
};

// On the straight line between two validation losses.
struct LossReached {
  double step = 0, seconds = 0;

  LADDER_FIELDS(LossReached, (step, from_0), (seconds, from_0))
};

// One training of a rung.
struct SeedTraining {
  size_t rung = 0;
  uint64_t seed = 1;
  std::vector<LossAt> curve;
  double seconds = 0;      // of all its steps, without validation
  std::string not_finite;  // what ended it early: "the loss of step 12"; empty: nothing
  std::string failure;     // of its process; empty: it ended well

  // What follows from them.
  std::optional<LossReached> reached;  // the loss, for the first time; none: never

  [[nodiscard]] bool has_ended() const { return not_finite.empty() && failure.empty() && !curve.empty(); }

  LADDER_FIELDS(SeedTraining, rung, seed, (curve, {.most_items = 10000}), (seconds, {.least = 0, .most = 1e12}),
                not_finite, failure, reached)
};

// An average over seeds; no bounds with a single one.
struct OverSeeds : Bounds {
  double mean = 0;

  LADDER_MORE_FIELDS(Bounds, OverSeeds, mean)
};

struct RungToLoss : Rung {
  // What follows from its trainings.
  std::vector<LossAt> medians;              // over its trainings, at each validation
  int64_t ended = 0, reached = 0;           // trainings that ended well, and of them those that reached the loss
  std::optional<double> loss;               // at the end: mean
  std::optional<double> seconds;            // to the loss: geometric mean; none: a training did not reach it
  std::optional<OverSeeds> difference;      // of the losses at the end, from the reference's of the same seed; nats
  std::optional<OverSeeds> speedup;         // to the loss: geometric mean; none: a training of a pair did not reach it
  std::optional<harness::Quality> quality;  // none: it is the reference, or has no training to compare
  bool counts = false;                      // the speedup does: the quality is the same
  std::string words;

  LADDER_MORE_FIELDS(Rung, RungToLoss, (medians, {.most_items = 10000}), (ended, from_0), (reached, from_0), loss,
                     seconds, difference, speedup, quality, counts, words)
};

struct TimeToLoss {
  static constexpr auto kind = "to_loss";
  static constexpr auto about =
      "Rungs of a ladder, each trained with several seeds, until a validation loss is reached";

  NamedDevice device;
  NamedLadder ladder;
  Training training;  // of the reference with the first seed; the others differ in recipe and seed only
  double loss = 0;    // that is to be reached
  double margin = 0;  // nats; a loss at the end that is higher by less is as good
  int64_t seeds = 1;  // from the training's on
  std::vector<RungToLoss> rungs;
  std::vector<SeedTraining> trainings;  // in the order in which they were made; fewer where it was interrupted

  // What follows from them.
  size_t reference = 0;  // the rung that the others are compared with: the first that is trained
  Said said;

  // How many trainings there are in all.
  [[nodiscard]] int64_t planned() const;

  // Throws std::invalid_argument for a training of no rung, and where no validation loss is taken.
  void check(const std::string& where) const;

  LADDER_FIELDS(TimeToLoss, device, ladder, training, (loss, {.above = 0, .most = 1000000}),
                (margin, {.above = 0, .most = 1000000}), (seeds, {.least = 1, .most = 100}),
                (rungs, {.items = 1, .most_items = 200}), (trainings, {.most_items = 20000}), reference, said)
};

LADDER_COMPILED_ONCE(TimeToLoss)

// Short trainings that differ only in their learning rate, and what each rate's losses say of it:
// results/schemas/lr_sweep.v1.json.

enum class RateVerdict { too_low, good, too_high };
template <>
struct Names<RateVerdict> {
  static constexpr std::array list{"too low", "good", "too high"};
};

// Why; study/training/rate_verdict.h has the rules.
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
