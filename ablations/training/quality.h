// What the trainings of a study of time to loss show of each rung, from their validation losses alone.
//
// A training has reached the loss where its validation loss is first at or below it, on the straight line between two
// validations. A rung is compared with the reference seed by seed: both trainings of a pair begin with the same weights
// and see the same batches. Its quality is a test of non-inferiority of the validation losses at the end
// (harness/stats/non_inferiority.h); a rung of which a training diverges with a seed with which the reference's ends
// well is worse. Its speedup is the reference's seconds to the loss over its own. It counts only where the quality is
// the same, and is there only where both trainings of every pair have reached the loss: else the mean would be of
// seeds that were lucky.
#pragma once

#include "results/to_loss.h"

#include <optional>
#include <vector>

namespace ablations {

// None where the curve is above `loss` throughout. At or below it from the first validation on: that one.
std::optional<LossReached> reached_at(const std::vector<LossAt>& curve, double loss);

// The study with all that follows from its trainings' curves, but for the words.
TimeToLoss with_verdicts(TimeToLoss study);

}  // namespace ablations
