#include "harness/machine/asleep.h"

#include "harness/machine/processor_time.h"

#include <fmt/format.h>
#include <sys/syscall.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <string>

namespace harness {

namespace {

// "230 0x0 0x1 0x7ffc..."; "running"; or nothing, where the kernel does not tell.
bool has_asked_to_sleep(pid_t process) {
  std::ifstream stream(fmt::format("/proc/{}/syscall", process));
  int64_t call = -1;
  std::string first, second;
  if (!(stream >> call >> first >> second)) return false;
  switch (call) {
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
      return true;
#ifdef SYS_select
    case SYS_select:
#endif
    case SYS_pselect6:
      return first == "0x0";
#ifdef SYS_poll
    case SYS_poll:
#endif
    case SYS_ppoll:
      return second == "0x0";
    default:
      return false;
  }
}

// Whether all of its threads wait for something that is no disk.
bool stands_still(pid_t process) {
  std::error_code error;
  for (std::filesystem::directory_iterator task(fmt::format("/proc/{}/task", process), error), end;
       !error && task != end; task.increment(error)) {
    std::ifstream stream(task->path() / "stat");
    std::string stat;
    if (!std::getline(stream, stat, '\0')) continue;  // it has ended
    const size_t name_end = stat.rfind(") ");         // "812 (python) S 1 ..."
    if (name_end == std::string::npos || stat.size() < name_end + 3) continue;
    if (const char state = stat[name_end + 2]; state == 'R' || state == 'D') return false;
  }
  return true;
}

}  // namespace

bool is_asleep(pid_t main, const std::vector<pid_t>& all) {
  return has_asked_to_sleep(main) && std::ranges::all_of(all, stands_still) && has_asked_to_sleep(main);
}

SleepWatch::~SleepWatch() { (void)end(); }

void SleepWatch::begin(std::vector<pid_t> processes) {
  (void)end();
  looks_ = {};
  if (processes.empty()) return;
  const auto ran_s = [](pid_t process) { return processor_time(process).value_or(ProcessorTime()).ran_s; };
  const pid_t main = std::ranges::max(processes, {}, ran_s);
  looker_ = std::jthread([this, main, all = std::move(processes)](const std::stop_token& stop) {
    std::minstd_rand draw(static_cast<unsigned>(main));
    std::uniform_real_distribution<double> ms(5, 15);
    std::mutex mutex;
    std::condition_variable_any waiting;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      waiting.wait_for(lock, stop, std::chrono::duration<double, std::milli>(ms(draw)), [] { return false; });
      if (stop.stop_requested()) return;
      ++looks_.all;
      looks_.asleep += is_asleep(main, all) ? 1 : 0;
    }
  });
}

SleepWatch::Looks SleepWatch::end() {
  if (!looker_.joinable()) return looks_;
  looker_.request_stop();
  looker_.join();
  return looks_;
}

}  // namespace harness
