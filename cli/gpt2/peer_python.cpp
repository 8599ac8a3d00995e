#include "cli/gpt2/peer_python.h"

#include "ablations/gpt2/child.h"
#include "ablations/run/study_folder.h"
#include "cli/draw.h"
#include "files/files.h"
#include "files/printable.h"
#include "harness/process/process.h"
#include "plots/again.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <regex>
#include <set>
#include <stdexcept>

namespace cli {

namespace fs = std::filesystem;

namespace {

constexpr double telling_limit_s = 300;  // to import PyTorch from a slow disk takes minutes

// Why it cannot be started; empty: it can.
std::string obstacle_of_python(const fs::path& program, const std::string& named) {
  if (named.find('/') == std::string::npos && program == named) return "is not on PATH";
  if (!fs::exists(program)) return "is not there";
  if (fs::is_directory(program)) return "is a folder";
  return ::access(program.c_str(), X_OK) == 0 ? "" : "is no program";
}

// Asks the peer's own script, which imports all that a run needs.
PeerPython asked_python(const std::string& named) {
  const auto refuse = [&](const std::string& why, const std::string& instead) {
    throw std::invalid_argument(fmt::format("--peer-python {}: {}; {}", files::printable(named), why, instead));
  };
  const fs::path program = on_path(named);
  const std::string obstacle = obstacle_of_python(program, named);
  if (!obstacle.empty()) refuse(obstacle, "name a Python that has PyTorch, such as ~/torch/bin/python");
  const files::TemporaryFolder temporary("ladder-python");
  const fs::path log = temporary.path() / "log";
  std::string version;
  const harness::ChildResult child =
      harness::run_child({.argv = {fs::absolute(program).string(), peer_script().string(), "--tell-version"},
                          .log = log,
                          .limit_s = telling_limit_s,
                          .environment = environment_of_peers(),
                          .on_line = [&](std::string_view line) { version = line; },
                          .of_others = true});
  static const std::regex pattern(R"(\d[0-9A-Za-z.]{0,39}(\+[0-9A-Za-z._-]*)?)");
  if (child.succeeded() && std::regex_match(version, pattern)) {
    return {.torch = short_version(version), .program = fs::absolute(program)};
  }
  const std::string said = last_line(log);
  refuse(child.succeeded() ? "tells no version of PyTorch"
                           : fmt::format("has no PyTorch that can be used: it {}{}", child.describe(telling_limit_s),
                                         said.empty() ? "" : ": " + said),
         fmt::format("`{} -m pip install torch` installs the newest, or name another Python",
                     plots::for_shell(program.string())));
  return {};
}

}  // namespace

std::vector<PeerPython> peer_pythons(const std::vector<std::string>& named) {
  std::vector<PeerPython> pythons;
  for (const std::string& name : named) {
    PeerPython python = asked_python(name);
    const auto same = std::ranges::find(pythons, python.torch, &PeerPython::torch);
    if (same != pythons.end()) {
      throw std::invalid_argument(
          fmt::format("--peer-python {}: has PyTorch {}, as {} has; name one Python of each version",
                      files::printable(name), python.torch, files::printable(same->program.string())));
    }
    pythons.push_back(std::move(python));
  }
  return pythons;
}

void check_are_of(const Plan& plan, const std::vector<PeerPython>& pythons, const std::string& out) {
  std::set<std::string> planned, given;
  for (const Rung& rung : plan.rungs) {
    if (const std::string torch = peer_name(rung.peer).torch; !torch.empty()) planned.insert(torch);
  }
  for (const PeerPython& python : pythons) given.insert(python.torch);
  if (planned == given) return;
  const auto words = [](const std::set<std::string>& versions) {
    return versions.empty() ? "none" : fmt::format("PyTorch {}", fmt::join(versions, " and "));
  };
  throw std::invalid_argument(
      fmt::format("--peer-python: the study in {} was begun with {}, and {} is named now; name the same again, with "
                  "--peer-python for each",
                  files::printable(out), words(planned), words(given)));
}

}  // namespace cli
