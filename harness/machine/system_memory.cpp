#include "harness/machine/system_memory.h"

#include "harness/machine/control_groups.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace harness {

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
