// Whether a program stands still because it asked to sleep, and for how much of a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <thread>
#include <vector>

namespace harness {

// Whether the first thread of `main` sleeps for a time that it asked for (nanosleep(), or select() and poll() of
// nothing; /proc/PID/syscall), and no thread of `all` runs or waits for a disk. So a program that waits for the work of
// another of these is not asleep. False where the kernel does not tell.
bool is_asleep(pid_t main, const std::vector<pid_t>& all);

// Looks about every 10 ms, at times that no step can be in tune with, until end().
class SleepWatch {
 public:
  struct Looks {
    int64_t all = 0, asleep = 0;
  };

  SleepWatch() = default;
  ~SleepWatch();
  SleepWatch(const SleepWatch&) = delete;  // its thread knows where it is
  SleepWatch& operator=(const SleepWatch&) = delete;

  void begin(std::vector<pid_t> processes);  // its main thread: of the one that has run longest
  Looks end();

 private:
  Looks looks_;
  std::jthread looker_;  // last: it is joined before what it uses goes
};

}  // namespace harness
