// Which of the program's own operations are faster on this CPU than PyTorch's. One processor's gain is another's loss.
// So both are timed at the shapes of a step before a rung takes ours. What is not faster is left out.
#pragma once

#include "model/config.h"
#include "model/recipe.h"
#include "results/observations.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ablations {

// Times the calls in which two recipes differ by one operation of our own, forward and backward. PyTorch's and ours
// take turns. Each time is the shortest of three rounds, of nine where other work disturbed them. Nothing is chosen
// yet.
std::vector<ProductTiming> time_both(const model::Config& config, const model::Recipe& own,
                                     const model::Recipe& without, int64_t B, int64_t T);

using TimeBoth = std::function<std::vector<ProductTiming>(const model::Recipe& own, const model::Recipe& without)>;

// Asks for each pair once, so that everybody who asks gets the same answer.
class OwnOperations {
 public:
  // n_layer: how often a step makes each product but the head's.
  OwnOperations(int64_t n_layer, TimeBoth time) : n_layer_(n_layer), time_(std::move(time)) {}

  // `edited` is `before` with one more optimization. Takes our operations out of it that are not faster, if they are
  // new or get other number types. Returns why; empty: all stay. Steps on a GPU stay as they are.
  std::string choose(const model::Recipe& before, model::Recipe& edited);

  // The timings of all pairs that were asked for, with what was taken.
  [[nodiscard]] const std::vector<ProductTiming>& timings() const { return timings_; }

 private:
  struct Answer {
    bool is_faster;
    std::string why_not;
  };
  const Answer& answer(const model::Recipe& own, const model::Recipe& without);

  int64_t n_layer_;
  TimeBoth time_;
  std::map<std::string, Answer> answers_;
  std::vector<ProductTiming> timings_;
};

}  // namespace ablations
