#include "harness/machine/processor_time.h"

#include "harness/machine/control_groups.h"
#include "harness/process/descendants.h"
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
  using Times = std::map<pid_t, std::pair<std::string, double>>;  // names and seconds
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const auto look = [ticks] {
    Times times;
    std::error_code error;
    for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
         entry.increment(error)) {
      std::ifstream stream(entry->path() / "stat");
      std::string before, state;
      double skipped = 0, user = 0, system = 0;
      if (!std::getline(stream, before, '\0')) continue;
      const size_t name = before.find('('), rest = before.rfind(')');  // "812 (cc1plus) R 1 ...", the 14th and 15th
      if (name == std::string::npos || rest < name) continue;
      std::istringstream fields(before.substr(rest + 1));
      fields >> state;
      for (int i = 4; i < 14; ++i) fields >> skipped;
      if (fields >> user >> system) {
        times[std::atoi(before.c_str())] = {before.substr(name + 1, rest - name - 1), (user + system) / ticks};
      }
    }
    return times;
  };
  const Times begin = look();
  std::this_thread::sleep_for(std::chrono::duration<double>(window_s));
  Times end = look();
  for (const pid_t own : process_tree(::getpid())) end.erase(own);
  std::string busiest;
  double most = 0.1;
  for (const auto& [pid, of] : end) {
    const auto before = begin.find(pid);
    const double share = (of.second - (before == begin.end() ? 0 : before->second.second)) / window_s;
    if (share <= most) continue;
    most = share;
    busiest = fmt::format("{} (pid {}) takes {:.0f} % of a processor", of.first, pid, 100 * share);
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
