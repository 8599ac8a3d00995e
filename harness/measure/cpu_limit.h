// How many processors the control groups of this process grant it, such as a container's `--cpus 2` or a pod's CPU
// limit. With more threads than that, the kernel stops them again and again in the middle of their work.
#pragma once

#include <filesystem>
#include <optional>

namespace harness {

// The smallest limit of the process's group and of those above it: cpu.max (cgroup v2) or cpu.cfs_quota_us (v1), over
// its period. None without a limit. `root`: where /proc and /sys are.
std::optional<double> cpu_limit(const std::filesystem::path& root = "/");

}  // namespace harness
