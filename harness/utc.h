// The time of day as it stands in every file.
#pragma once

#include <optional>
#include <string>

namespace harness {

// "2026-11-21T11:05:00Z"
std::string utc_now();

// Hours from one such time to the other, whichever is first; none where one is no time.
std::optional<double> hours_between(const std::string& time, const std::string& other);

}  // namespace harness
