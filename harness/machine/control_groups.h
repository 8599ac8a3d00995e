// What the control groups of this process grant it, such as a container's, a pod's or a batch job's: the process's own
// group and those above it, of cgroup v2 and v1.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace harness {

// How many processors: the smallest of cpu.max (v2) or cpu.cfs_quota_us (v1), over its period. None without a limit.
// With more threads than that, the kernel stops them again and again in the middle of their work. `root`: where /proc
// and /sys are.
std::optional<double> cpu_limit(const std::filesystem::path& root = "/");

// How many bytes of memory: the least of each group's limit (memory.max, memory.limit_in_bytes) minus what the group
// uses already, of which the kernel would drop cached files first. None without a limit.
std::optional<int64_t> memory_left(const std::filesystem::path& root = "/");

}  // namespace harness
