#include "model/schedule.h"

#include <cmath>
#include <numbers>

namespace model {

double Schedule::at(int64_t step) const {
  if (step < warmup_steps) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  if (step >= decay_steps) return floor;
  const double progress = static_cast<double>(step - warmup_steps) / static_cast<double>(decay_steps - warmup_steps);
  return floor + 0.5 * (1.0 + std::cos(std::numbers::pi * progress)) * (peak - floor);
}

}  // namespace model
