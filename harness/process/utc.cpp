#include "harness/process/utc.h"

#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>

namespace harness {

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

std::optional<double> hours_between(const std::string& time, const std::string& other) {
  std::time_t seconds[2];
  for (int i = 0; i < 2; ++i) {
    std::tm utc{};
    const char* end = strptime((i == 0 ? time : other).c_str(), "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (end == nullptr || *end != 0) return std::nullopt;
    seconds[i] = timegm(&utc);
  }
  return std::abs(std::difftime(seconds[0], seconds[1])) / 3600;
}

SinceBoot since_boot() {
  SinceBoot moment;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::getline(file, moment.boot);
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  moment.seconds = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  std::ifstream offsets("/proc/self/timens_offsets");  // of a container's clock
  std::string clock;
  for (double seconds = 0, nanoseconds = 0; offsets >> clock >> seconds >> nanoseconds;) {
    if (clock == "boottime") moment.seconds -= seconds + 1e-9 * nanoseconds;
  }
  return moment;
}

}  // namespace harness
