#include "harness/process/descendants.h"

#include <dirent.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

namespace harness {
namespace {

// From /proc/PID/stat: "PID (name) state parent ...", where the name may hold anything. 0 for a process that is gone.
pid_t parent_of(const char* pid) {
  std::ifstream stream("/proc/" + std::string(pid) + "/stat");
  std::string stat;
  std::getline(stream, stat, '\0');  // an iterator would throw where the process ends before it is read
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

// Those of one process, as the kernel lists them.
std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> found;
  std::error_code error;
  for (std::filesystem::directory_iterator task("/proc/" + std::to_string(pid) + "/task", error), end;
       !error && task != end; task.increment(error)) {
    std::ifstream stream(task->path() / "children");
    for (pid_t child = 0; stream >> child;) found.push_back(child);
  }
  return found;
}

}  // namespace

std::vector<pid_t> process_tree(pid_t root) {
  std::vector<pid_t> tree{root};
  for (size_t i = 0; i < tree.size(); ++i) {
    for (const pid_t child : children_of(tree[i])) {
      if (std::ranges::find(tree, child) == tree.end()) tree.push_back(child);
    }
  }
  return tree;
}

std::vector<pid_t> Descendants::of(pid_t child) const {
  std::vector<pid_t> all = process_tree(child);
  for (const pid_t root : children_of(::getpid())) {
    if (root == child || std::ranges::find(others_, root) != others_.end()) continue;
    for (const pid_t pid : process_tree(root)) all.push_back(pid);
  }
  return all;
}

Descendants::Descendants() : others_(children()) {
  ::prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Descendants::~Descendants() {
  end();
  ::prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_);
}

bool Descendants::any_left() const {
  return std::ranges::any_of(children(), [&](pid_t pid) {
    return std::ranges::find(others_, pid) == others_.end() && ::waitpid(pid, nullptr, WNOHANG) == 0;
  });
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
