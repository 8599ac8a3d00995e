#include "harness/process/descendants.h"

#include <dirent.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>

namespace harness {
namespace {

// From /proc/PID/stat: "PID (name) state parent ...", where the name may hold anything. 0 for a process that is gone.
pid_t parent_of(const char* pid) {
  std::ifstream stream("/proc/" + std::string(pid) + "/stat");
  const std::string stat{std::istreambuf_iterator<char>(stream), {}};
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 4 >= stat.size()) return 0;
  pid_t parent = 0;
  std::from_chars(stat.data() + name_end + 4, stat.data() + stat.size(), parent);
  return parent;
}

// Those that have ended and were not waited for, too.
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  DIR* processes = ::opendir("/proc");
  if (processes == nullptr) return found;
  while (const dirent* entry = ::readdir(processes)) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || *end != '\0') continue;
    if (parent_of(entry->d_name) == ::getpid()) found.push_back(pid);
  }
  ::closedir(processes);
  return found;
}

}  // namespace

Descendants::Descendants() : others_(children()) {
  ::prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Descendants::~Descendants() {
  end();
  ::prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_);
}

void Descendants::end() const {
  using namespace std::chrono_literals;
  // A killed process may need a moment; one that no signal ends (a disk that does not answer) is left.
  const auto give_up = std::chrono::steady_clock::now() + 5s;
  while (std::chrono::steady_clock::now() < give_up) {
    bool any = false;
    for (const pid_t pid : children()) {
      if (std::ranges::find(others_, pid) != others_.end()) continue;
      any = true;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, WNOHANG);
    }
    if (!any) return;
    std::this_thread::sleep_for(1ms);
  }
}

}  // namespace harness
