// The host's memory as the kernel reports it.
#pragma once

#include <cstdint>
#include <optional>

namespace harness {

// Page faults of this process so far that needed no disk.
int64_t minor_faults();
// And those that needed one.
int64_t major_faults();

// Of this process now, in bytes; none if the kernel does not say. It counts in batches, and may be some hundred KiB
// off.
std::optional<int64_t> resident_bytes();

// Available bytes, at most what the control groups leave (control_groups.h); none if the kernel does not say.
std::optional<int64_t> available_memory();

}  // namespace harness
