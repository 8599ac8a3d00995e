// What the trainings of a study of time to loss show of each rung, from their validation losses alone.
//
// A training has reached the loss where its validation loss is first at or below it, on the straight line between two
// validations. A rung is compared with the reference seed by seed. Both trainings of a pair begin with the same weights
// and see the same batches. Its quality is a test of non-inferiority of the validation losses at the end
// (harness/stats/non_inferiority.h). A rung is worse if a training diverges with a seed with which the reference's ends
// well. Its speedup is the reference's seconds to the loss over its own. It counts only where the quality is the same.
// Without both trainings of every pair reaching the loss there is none: it would be a mean of lucky seeds.
#pragma once

#include "results/to_loss.h"

#include <optional>
#include <vector>

namespace ablations {

// None where the curve is above `loss` throughout. If it never is, the first validation.
std::optional<LossReached> reached_at(const std::vector<LossAt>& curve, double loss);

// The study with all that follows from its trainings' curves, except the words.
TimeToLoss with_verdicts(TimeToLoss study);

}  // namespace ablations
