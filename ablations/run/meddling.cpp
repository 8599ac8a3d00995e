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
  find_shared(rung, found);
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

// Where commands share a folder: a file that only another one writes, and a run of the reference reads. The other way
// round it is a cache that the reference, which is tried first, has made for both.
void Meddling::find_shared(size_t rung, std::vector<Found>& found) {
  const fs::path own = directory_of(plan_.rungs[rung]);
  const auto all_of = [&](size_t i) -> std::set<std::string>& {
    const std::vector<std::string>& by_trial = plan_.rungs[i].command->trial.wrote;
    return wrote_.try_emplace(i, by_trial.begin(), by_trial.end()).first->second;
  };
  const auto written = written_since(own, since_s_, folder_);
  all_of(rung).insert(written.begin(), written.end());
  for (size_t i = 0; rung == plan_.reference && i < plan_.rungs.size(); ++i) {
    const bool is_same = plan_.rungs[i].command->text == plan_.rungs[rung].command->text;
    if (is_same || directory_of(plan_.rungs[i]) != own) continue;
    for (const std::string& name : all_of(i)) {
      if (all_of(rung).contains(name) || read_at(own / name) < since_s_) continue;
      found.push_back({"shared", fmt::format("it read {}, which only “{}” writes", files::printable(name),
                                             files::shortened(plan_.rungs[i].title, 60))});
      return;
    }
  }
}

}  // namespace ablations
