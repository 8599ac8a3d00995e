// Short trainings that differ only in their learning rate, and what each rate's losses say of it:
// results/schemas/lr_sweep.v1.json.
#pragma once

#include "results/training.h"
#include "results/words.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

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
  double mean = 0;
  double fall = 0;   // of the line, from the part's first step to its last; below 0: it rises
  double swing = 0;  // standard deviation of the losses about the line

  static void fields(auto&& field) {
    field("mean", &LossesAtTheEnd::mean);
    field("fall", &LossesAtTheEnd::fall);
    field("swing", &LossesAtTheEnd::swing);
  }
};

struct SweptRate {
  TrainingSchedule learning_rate;
  std::vector<std::optional<double>> losses;  // of each step, in nats; none: not finite
  std::string not_finite;                     // what ended it early: "the loss of step 12"; empty: nothing

  // What follows from them.
  std::optional<LossesAtTheEnd> end;  // none: it ended early
  RateVerdict verdict = RateVerdict::good;
  RateReason reason = RateReason::near_the_best;
  std::string words;  // the reason with its figures

  static void fields(auto&& field) {
    field("learning_rate", &SweptRate::learning_rate);
    field("losses", &SweptRate::losses);
    field("not_finite", &SweptRate::not_finite);
    field("end", &SweptRate::end);
    field("verdict", &SweptRate::verdict);
    field("reason", &SweptRate::reason);
    field("words", &SweptRate::words);
  }
};

struct LearningRateSweep {
  static constexpr auto kind = "lr_sweep";

  NamedDevice device;
  Training training;             // of the lowest rate; the others differ in learning_rate only
  int64_t planned = 1;           // rates; where it was interrupted fewer are there
  std::vector<SweptRate> rates;  // from low to high

  // What follows from them.
  int64_t end_steps = 1;       // of each training, those that are its end
  double margin = 0;           // nats; a smaller difference is none
  std::optional<size_t> best;  // of `rates`, that with the lowest losses at the end; none: none learns
  Said said;                   // empty in older documents

  static void fields(auto&& field) {
    field("device", &LearningRateSweep::device);
    field("training", &LearningRateSweep::training);
    field("planned", &LearningRateSweep::planned);
    field("rates", &LearningRateSweep::rates);
    field("end_steps", &LearningRateSweep::end_steps);
    field("margin", &LearningRateSweep::margin);
    field("best", &LearningRateSweep::best);
    field("said", &LearningRateSweep::said, None::defaulted);
  }
};

// Compiled once, in the source beside this.
extern template files::Json json_of(const LearningRateSweep&);
extern template LearningRateSweep value_from(const files::Json&, const std::string&);

}  // namespace ablations
