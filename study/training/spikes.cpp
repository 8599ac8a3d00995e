#include "study/training/spikes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace study {

std::optional<double> SpikeWatch::take(double loss) {
  if (!std::isfinite(loss)) return std::nullopt;
  std::optional<double> z;
  if (before_.size() >= spike_least) {
    const auto n = static_cast<double>(before_.size());
    const double mean = std::accumulate(before_.begin(), before_.end(), 0.0) / n;
    double squares = 0;
    for (const double other : before_) squares += (other - mean) * (other - mean);
    z = (loss - mean) / std::max(std::sqrt(squares / (n - 1)), least_deviation);
  }
  before_.push_back(loss);
  if (before_.size() > spike_window) before_.pop_front();
  return z && *z >= spike_z ? z : std::nullopt;
}

}  // namespace study
