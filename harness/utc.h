// The time of day as it stands in every file.
#pragma once

#include <string>

namespace harness {

// "2026-11-21T11:05:00Z"
std::string utc_now();

}  // namespace harness
