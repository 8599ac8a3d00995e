#include "results/to_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace results {

int64_t TimeToLoss::planned() const { return seeds * std::ranges::count(rungs, Rung::Status::planned, &Rung::status); }

void TimeToLoss::check(const std::string& where) const {
  if (training.settings.validation_every < 1) {
    throw std::invalid_argument(fmt::format("{}: its trainings have no validation loss", where));
  }
  for (size_t i = 0; i < trainings.size(); ++i) {
    if (trainings[i].rung < rungs.size() && rungs[trainings[i].rung].status == Rung::Status::planned) continue;
    throw std::invalid_argument(
        fmt::format("{}: trainings[{}] is of rung {}, which is not one that is trained", where, i, trainings[i].rung));
  }
}

}  // namespace results
