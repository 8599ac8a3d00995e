// The host's memory as the kernel reports it.
#pragma once

#include <cstdint>
#include <optional>

namespace harness {

// Page faults of this process so far that needed no disk.
int64_t minor_faults();

// Available bytes, at most the limit of the container; none if the kernel does not say.
std::optional<int64_t> available_memory();

}  // namespace harness
