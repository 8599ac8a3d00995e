// The host's memory as the kernel tells it.
#pragma once

#include <cstdint>
#include <optional>

namespace harness {

// Page faults of this process so far that needed no disk.
int64_t minor_faults();

// Bytes that are available, and no more than a container may have; none where the kernel does not say.
std::optional<int64_t> available_memory();

}  // namespace harness
