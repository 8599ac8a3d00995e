// What the control groups of this process grant it (a container's, a pod's or a batch job's). They are the process's
// own group and those above it, of cgroup v2 and v1.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace harness {

// The number of processors: the smallest quota over its period (v2: cpu.max, v1: cpu.cfs_quota_us). None without a
// limit. The kernel stops more threads than that again and again in the middle of their work. `root`: where /proc and
// /sys are.
std::optional<double> cpu_limit(const std::filesystem::path& root = "/");

// Seconds for which a quota has stopped the threads of such a group so far (cpu.stat), of the group where it was
// longest.
double throttled_s(const std::filesystem::path& root = "/");

// The least bytes of memory that a group has left: its limit (memory.max, memory.limit_in_bytes) less what it uses.
// Inactive cached files do not count as used: the kernel would drop them first. None without a limit.
std::optional<int64_t> memory_left(const std::filesystem::path& root = "/");

// The host's memory as the kernel reports it.

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
