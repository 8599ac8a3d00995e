// The time of day as it is written in files.
#pragma once

#include <optional>
#include <string>

namespace harness {

// "2026-11-21T11:05:00Z"
std::string utc_now();

// Hours between two such times, in either order; none if one is not a time.
std::optional<double> hours_between(const std::string& time, const std::string& other);

// A moment that does not depend on the clock's setting. It is the seconds since the machine was started, sleep
// included, and which start that was. Two moments of the same start give the time between them.
struct SinceBoot {
  std::string boot;  // empty where the kernel does not say
  double seconds = 0;
};
SinceBoot since_boot();

}  // namespace harness
