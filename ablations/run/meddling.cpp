#include "ablations/run/meddling.h"

#include "ablations/run/command_files.h"
#include "files/printable.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <string_view>

namespace ablations {

namespace fs = std::filesystem;

namespace {

fs::path directory_of(const Rung& rung) {
  return rung.command->directory.empty() ? fs::current_path() : fs::path(rung.command->directory);
}

// A file of this code that was changed since then; empty: there is none. Python writes __pycache__ itself.
fs::path changed_code(const std::set<fs::path>& code, double since_s) {
  const auto changed = std::ranges::find_if(code, [&](const fs::path& file) {
    return file.parent_path().filename() != "__pycache__" && changed_at(file) >= since_s;
  });
  return changed == code.end() ? fs::path() : *changed;
}

}  // namespace

const Inherited& inherited() {
  static const Inherited first = [] {
    Inherited now;
    ::sched_getaffinity(0, sizeof now.processors, &now.processors);
    now.nice = ::getpriority(PRIO_PROCESS, 0);
    return now;
  }();
  return first;
}

std::vector<Found> put_back() {
  std::vector<Found> found;
  const Inherited& first = inherited();
  const auto changed = [&](const char* what, int from, int to) {
    found.push_back({"runner", fmt::format("it changed the {} of `ladder` from {} to {}, which the next runs inherit",
                                           what, from, to)});
  };
  cpu_set_t processors;
  ::sched_getaffinity(0, sizeof processors, &processors);
  if (CPU_EQUAL(&processors, &first.processors) == 0) {
    changed("processors", CPU_COUNT(&first.processors), CPU_COUNT(&processors));
    ::sched_setaffinity(0, sizeof first.processors, &first.processors);
  }
  if (const int nice = ::getpriority(PRIO_PROCESS, 0); nice != first.nice) {
    changed("nice value", first.nice, nice);
    ::setpriority(PRIO_PROCESS, 0, first.nice);
  }
  return found;
}

void Meddling::begin() { since_s_ = now_of_files(); }

std::vector<Found> Meddling::end(size_t rung) {
  std::vector<Found> found = put_back();
  find_in_folders(rung, found);
  return found;
}

// Where each command has a folder of its own, as commits have.
void Meddling::find_in_folders(size_t rung, std::vector<Found>& found) {
  const fs::path own = directory_of(plan_.rungs[rung]);
  for (size_t i = 0; i < plan_.rungs.size(); ++i) {
    const fs::path other = directory_of(plan_.rungs[i]);
    if (i == rung || other == own) continue;
    const std::string name = plan_.rungs[i].name.substr(0, plan_.rungs[i].name.find('-'));  // "base"
    if (const auto written = written_since(other, since_s_, folder_ / "runs"); !written.empty()) {
      found.push_back(
          {"files", fmt::format("its run wrote {} in the folder of {}", files::printable(written.front()), name)});
      return;
    }
    const fs::path code = i < code_.size() ? changed_code(code_[i], since_s_) : fs::path();
    if (code.empty()) continue;
    found.push_back({"files", fmt::format("its run changed {}, which {} runs", files::printable(code.string()), name)});
    return;
  }
}

}  // namespace ablations
