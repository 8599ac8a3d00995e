#include "harness/machine/control_groups.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <system_error>

namespace harness {

namespace fs = std::filesystem;

namespace {

std::optional<double> ratio(double quota, double period) {
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

// "200000 100000", "max 100000"
std::optional<double> cpus_v2(const fs::path& group) {
  std::ifstream stream(group / "cpu.max");
  double quota = 0, period = 0;
  return stream >> quota >> period ? ratio(quota, period) : std::nullopt;
}

// A quota of -1 is none.
std::optional<double> cpus_v1(const fs::path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us"), period_file(group / "cpu.cfs_period_us");
  double quota = 0, period = 0;
  return quota_file >> quota && period_file >> period ? ratio(quota, period) : std::nullopt;
}

// 0 where the file does not say.
int64_t number_in(const fs::path& file) {
  std::ifstream stream(file);
  int64_t number = 0;
  return stream >> number ? number : 0;
}

int64_t named_in(const fs::path& file, const std::string& wanted) {
  std::ifstream stream(file);
  std::string name;
  for (int64_t number = 0; stream >> name >> number;) {
    if (name == wanted) return number;
  }
  return 0;
}

std::optional<int64_t> bytes_left(const fs::path& limit_file, const fs::path& used_file, const char* cached) {
  int64_t limit = 0;
  if (!(std::ifstream(limit_file) >> limit)) return std::nullopt;  // "max" is no number
  const int64_t files = named_in(limit_file.parent_path() / "memory.stat", cached);
  return std::max(int64_t{0}, limit - std::max(int64_t{0}, number_in(used_file) - files));
}

std::optional<int64_t> memory_v2(const fs::path& group) {
  return bytes_left(group / "memory.max", group / "memory.current", "inactive_file");
}

std::optional<int64_t> memory_v1(const fs::path& group) {
  return bytes_left(group / "memory.limit_in_bytes", group / "memory.usage_in_bytes", "total_inactive_file");
}

// Less than 0: what least() finds is the longest.
std::optional<double> throttled_v2(const fs::path& group) {
  return -1e-6 * static_cast<double>(named_in(group / "cpu.stat", "throttled_usec"));
}

std::optional<double> throttled_v1(const fs::path& group) {
  return -1e-9 * static_cast<double>(named_in(group / "cpu.stat", "throttled_time"));
}

bool names(const std::string& controllers, const std::string& controller) {
  std::istringstream stream(controllers);
  for (std::string one; std::getline(stream, one, ',');) {
    if (one == controller) return true;
  }
  return false;
}

// The path of this process's group below `mount`, also where a namespace of its own shows it as "/". It is looked for
// once: a mount of a host has thousands of groups, and processor_time() asks around every timed window.
std::string path_below(const fs::path& mount, const std::string& path) {
  const auto holds_us = [](const fs::path& group) {
    std::ifstream processes(group / "cgroup.procs");
    return std::find(std::istream_iterator<pid_t>(processes), {}, ::getpid()) != std::istream_iterator<pid_t>();
  };
  if (path != "/") return path;
  static thread_local std::map<fs::path, std::string> known;
  std::string& found = known.try_emplace(mount, "").first->second;
  if (!found.empty() || (found = path, holds_us(mount))) return found;
  std::error_code error;
  fs::recursive_directory_iterator entry(mount, fs::directory_options::skip_permission_denied, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    if (entry->is_directory(error) && holds_us(entry->path())) {
      return found = entry->path().lexically_relative(mount).string();
    }
  }
  return found;
}

// Of what the group of this process and those above it say. In a container the path may be the host's, which does not
// exist there; then the mount itself is the container's group.
template <class T>
std::optional<T> least(const fs::path& root, const std::string& controller, std::optional<T> (*of_v2)(const fs::path&),
                       std::optional<T> (*of_v1)(const fs::path&)) {
  std::optional<T> found;
  const auto look = [&](const fs::path& mount, const std::string& path, auto limit_of) {
    for (fs::path group = fs::path(path_below(mount, path)).relative_path();; group = group.parent_path()) {
      if (const auto limit = limit_of(mount / group)) found = std::min(found.value_or(*limit), *limit);
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
      look(mounted, path, of_v2);
    } else if (names(controllers, controller)) {
      look(mounted / controller, path, of_v1);
    }
  }
  return found;
}

}  // namespace

std::optional<double> cpu_limit(const fs::path& root) { return least(root, "cpu", cpus_v2, cpus_v1); }

double throttled_s(const fs::path& root) { return -least(root, "cpu", throttled_v2, throttled_v1).value_or(0); }

std::optional<int64_t> memory_left(const fs::path& root) { return least(root, "memory", memory_v2, memory_v1); }

int64_t minor_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

int64_t major_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_majflt;
}

std::optional<int64_t> resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  if (!(statm >> pages >> resident)) return std::nullopt;
  return resident * ::sysconf(_SC_PAGESIZE);
}

std::optional<int64_t> available_memory() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  int64_t kilobytes = 0;
  for (std::string unit; meminfo >> name >> kilobytes; std::getline(meminfo, unit)) {
    if (name != "MemAvailable:") continue;
    const int64_t available = kilobytes * 1024;
    return std::min(available, memory_left().value_or(available));
  }
  return std::nullopt;
}

}  // namespace harness
