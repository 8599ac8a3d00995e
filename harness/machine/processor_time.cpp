#include "harness/machine/processor_time.h"

#include "harness/machine/control_groups.h"
#include "harness/stats/stats.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>
#include <thread>

namespace harness {

namespace {

// 0 without a hypervisor, or if it does not report stolen time.
void add_machine(ProcessorTime& time) {
  std::ifstream stream("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft_interrupts = 0, steal = 0;
  stream >> cpu >> user >> nice >> system >> idle >> waiting >> interrupts >> soft_interrupts >> steal;
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  time.machine_ran_s = (user + nice + system + interrupts + soft_interrupts) / ticks;
  time.machine_stolen_s = steal / ticks;
}

}  // namespace

std::optional<ProcessorTime> processor_time(pid_t process) { return processor_time(std::span(&process, 1)); }

std::optional<ProcessorTime> processor_time(std::span<const pid_t> processes) {
  ProcessorTime sum;
  for (const pid_t process : processes) {
    std::error_code error;
    // A thread that ends meanwhile leaves an empty file behind, or none.
    for (std::filesystem::directory_iterator task(fmt::format("/proc/{}/task", process), error), end;
         !error && task != end; task.increment(error)) {
      std::ifstream stream(task->path() / "schedstat");
      double ran_ns = 0, waited_ns = 0;
      if (!(stream >> ran_ns >> waited_ns)) continue;
      sum.ran_s += ran_ns * 1e-9;
      sum.waited_s += waited_ns * 1e-9;
    }
  }
  add_machine(sum);
  sum.throttled_s = throttled_s();
  return sum.ran_s > 0 ? std::optional(sum) : std::nullopt;
}

double share_lost(const ProcessorTime& begin, const ProcessorTime& end, double window_s, int threads, int cores) {
  const double waited = end.waited_s - begin.waited_s, ran = end.ran_s - begin.ran_s;
  const double ran_in_all = std::max(end.machine_ran_s - begin.machine_ran_s, ran);
  const double stolen = ran > 0 ? (end.machine_stolen_s - begin.machine_stolen_s) * ran / ran_in_all : 0;
  const double stopped = std::min(waited, end.throttled_s - begin.throttled_s);
  const double lost = std::min(waited - stopped, window_s * cores - ran) + stolen;
  return std::clamp(lost / (window_s * std::min(threads, cores)), 0.0, 1.0);
}

double share_in_use(double window_s) {
  ProcessorTime begin, end;
  add_machine(begin);
  std::this_thread::sleep_for(std::chrono::duration<double>(window_s));
  add_machine(end);
  const auto processors = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  return std::clamp((end.machine_ran_s - begin.machine_ran_s) / (window_s * processors), 0.0, 1.0);
}

std::string busiest_other(double window_s) {
  struct Process {
    std::string name;
    pid_t parent = 0;
    double ran_s = 0;
  };
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const auto look = [ticks] {
    std::map<pid_t, Process> processes;
    std::error_code error;
    for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
         entry.increment(error)) {
      std::ifstream stream(entry->path() / "stat");
      std::string stat, skipped;
      if (!std::getline(stream, stat, '\0')) continue;
      const size_t begin = stat.find('('), end_of_name = stat.rfind(')');  // "812 (cc1plus) R 1 ..."
      if (begin == std::string::npos || end_of_name < begin) continue;
      Process process{.name = stat.substr(begin + 1, end_of_name - begin - 1)};
      std::istringstream fields(stat.substr(end_of_name + 1));
      fields >> skipped >> process.parent;
      for (int field = 5; field < 14; ++field) fields >> skipped;
      double user = 0, system = 0;
      if (!(fields >> user >> system)) continue;
      process.ran_s = (user + system) / ticks;
      processes[std::atoi(stat.c_str())] = process;
    }
    return processes;
  };
  const std::map<pid_t, Process> before = look();
  std::this_thread::sleep_for(std::chrono::duration<double>(window_s));
  const std::map<pid_t, Process> after = look();
  const auto is_own = [&](pid_t pid) {
    for (auto at = after.find(pid); at != after.end(); at = after.find(at->second.parent)) {
      if (at->first == ::getpid()) return true;
    }
    return false;
  };
  std::string busiest;
  double most = 0.1;
  for (const auto& [pid, process] : after) {
    const auto earlier = before.find(pid);
    const double share = (process.ran_s - (earlier == before.end() ? 0 : earlier->second.ran_s)) / window_s;
    if (share <= most || is_own(pid)) continue;
    most = share;
    busiest = fmt::format("{} (pid {}) takes {:.0f} % of a processor", process.name, pid, 100 * share);
  }
  return busiest;
}

std::string flag(double share_lost) {
  if (share_lost <= 0.1) return "";
  return fmt::format("shared: the processor was busy with something else for {:.0f} % of the time", 100 * share_lost);
}

std::string flag_of_pause(std::span<const double> step_ms) {
  if (step_ms.empty()) return "";
  const double usual = median(step_ms), longest = std::ranges::max(step_ms);
  if (longest < 10 * usual || longest < usual + 500) return "";
  return fmt::format("paused: a step took {:.3g} s among steps of {:.3g} s", longest / 1e3, usual / 1e3);
}

}  // namespace harness
