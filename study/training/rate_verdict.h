// Whether a learning rate of a sweep is too low, good or too high, and why, from the losses alone.
//
// A training ends at its loss over held-out batches, the same for all rates and for the weights without training. The
// best rate is the one that ends lowest. It must end at least `rate_margin` below the loss without training. Swing and
// fall are of the losses of its last quarter of steps, at least four. All trainings see the same batches, so a hard
// batch is hard for all. In older sweeps the mean of that quarter and the first loss stand for the held-out losses. For
// another rate the first rule that holds counts:
//
//   diverged       too high   a loss or a norm of gradients is not finite; or the rate is above the best one,
//                             and it ends above the loss without training by more than `rate_margin`
//   oscillates     too high   above the best one; about the straight line that fits its end, its losses swing
//                             by more than `rate_margin`, and than `swing_ratio` times as much as the best one's
//   near the best  good       its end is above the best one's by at most `rate_margin`
//   falls behind   too high   above the best one
//   still falling  too low    below the best one; the line falls further than the best one's, by more than
//                             `rate_margin`: it is where the best one was before
//   falls slowly   too low    below the best one
//
// If no rate ends so far below the loss without training, none is the best. A rate has then diverged as above, falls
// behind if a lower rate has diverged, or else falls slowly.
#pragma once

#include "results/to_loss.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace study {

constexpr double rate_margin = 0.1;  // nats: a loss that is lower by so much means 10 % fewer words to hesitate between
constexpr double swing_ratio = 2;
constexpr int64_t least_sweep_steps = 8;  // of which the end is four: fewer do not show whether they swing about a line

// How many of a training's steps are its end.
int64_t end_steps_of(int64_t steps);

// Of the last `count` of `losses` (not empty). None where one is not finite, or too large to be counted with.
std::optional<LossesAtTheEnd> losses_at_the_end(const std::vector<std::optional<double>>& losses, int64_t count);

// The sweep with all that follows from its rates' losses, except the words. They are end_steps, margin and best, and of
// each rate end, verdict and reason. The rates go from low to high.
LearningRateSweep with_verdicts(LearningRateSweep sweep);

// The learning rates of a sweep.

// Those that "MIN:MAX:COUNT" asks for, each as many times the one before. Those between the ends are rounded to three
// significant digits: so a rate that is shown is the rate that was trained with. Throws std::invalid_argument.
std::vector<double> rates_of(const std::string& text);

}  // namespace study
