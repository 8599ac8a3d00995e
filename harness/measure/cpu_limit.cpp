#include "harness/measure/cpu_limit.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace harness {

namespace fs = std::filesystem;

namespace {

std::optional<double> ratio(double quota, double period) {
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

// "200000 100000", "max 100000"
std::optional<double> limit_v2(const fs::path& group) {
  std::ifstream stream(group / "cpu.max");
  double quota = 0, period = 0;
  return stream >> quota >> period ? ratio(quota, period) : std::nullopt;
}

// A quota of -1 is none.
std::optional<double> limit_v1(const fs::path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us"), period_file(group / "cpu.cfs_period_us");
  double quota = 0, period = 0;
  return quota_file >> quota && period_file >> period ? ratio(quota, period) : std::nullopt;
}

bool names_cpu(const std::string& controllers) {
  std::istringstream stream(controllers);
  for (std::string one; std::getline(stream, one, ',');) {
    if (one == "cpu") return true;
  }
  return false;
}

}  // namespace

std::optional<double> cpu_limit(const fs::path& root) {
  std::optional<double> least;
  // The group and those above it. In a container the path may be the host's, which does not exist there; then the mount
  // itself is the container's group.
  const auto look = [&](const fs::path& mount, const std::string& path, auto limit_of) {
    for (fs::path group = fs::path(path).relative_path();; group = group.parent_path()) {
      if (const auto limit = limit_of(mount / group)) least = std::min(least.value_or(*limit), *limit);
      if (group.empty()) break;
    }
  };
  const fs::path mounted = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/user.slice", "4:cpu,cpuacct:/docker/0123"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) {
      look(mounted, path, limit_v2);
    } else if (names_cpu(controllers)) {
      look(mounted / "cpu", path, limit_v1);
    }
  }
  return least;
}

}  // namespace harness
