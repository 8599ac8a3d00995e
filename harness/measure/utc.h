// The time of day as it stands in every file.
#pragma once

#include <optional>
#include <string>

namespace harness {

// "2026-11-21T11:05:00Z"
std::string utc_now();

// Hours from one such time to the other, whichever is first; none where one is no time.
std::optional<double> hours_between(const std::string& time, const std::string& other);

// A moment that no change of the clock moves: seconds since the machine was started, sleep included, and which start
// that was. Two moments of one start tell how much time is between them.
struct SinceBoot {
  std::string boot;  // empty where the kernel does not say
  double seconds = 0;
};
SinceBoot since_boot();

}  // namespace harness
