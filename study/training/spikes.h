// Loss spikes: a loss far above those before it.
//
//     z = (loss - mean) / standard deviation, of the last `spike_window` losses before it
//
// A loss that falls has z below 0. A spike widens the deviation, so a loss that stays high is marked three times at
// most.
#pragma once

#include "text/rooms.h"

#include <cstddef>
#include <deque>
#include <optional>

namespace study {

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
