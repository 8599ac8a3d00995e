// What the trainings of a study of time to loss show of each rung, from their validation losses alone.
//
// A training has reached the loss where its validation loss is first at or below it, on the straight line between two
// validations. A rung is compared with the reference seed by seed. Both trainings of a pair begin with the same weights
// and see the same batches. Its quality is a test of non-inferiority of the validation losses at the end
// (harness/stats/verdict.h). A rung is worse if a training diverges with a seed with which the reference's ends
// well. Its speedup is the reference's seconds to the loss over its own. It counts only where the quality is the same.
// Without both trainings of every pair reaching the loss there is none: it would be a mean of lucky seeds.
#pragma once

#include "results/to_loss.h"

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

namespace study {

// None where the curve is above `loss` throughout. If it never is, the first validation.
std::optional<LossReached> reached_at(const std::vector<LossAt>& curve, double loss);

// The study with all that follows from its trainings' curves, except the words.
TimeToLoss with_verdicts(TimeToLoss study);

// Loss spikes: a loss far above those before it.
//
//     z = (loss - mean) / standard deviation, of the last `spike_window` losses before it
//
// A loss that falls has z below 0. A spike widens the deviation, so a loss that stays high is marked three times at
// most.

constexpr size_t spike_window = 64, spike_least = 16;  // losses; with fewer than the least of them nothing is a spike
constexpr double spike_z = 5;                          // normal noise reaches it about once in 400,000 steps
constexpr double least_deviation = 0.01;               // nats; less counts as this much: rounding is no spike

class SpikeWatch {
 public:
  // The z-score of the next loss, in nats, if it is a spike. A loss that is not finite is passed over.
  std::optional<double> take(double loss);

 private:
  std::deque<double> before_;
};

}  // namespace study
