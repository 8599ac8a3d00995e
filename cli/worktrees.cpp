#include "cli/worktrees.h"

#include "ablations/plan/command_rungs.h"
#include "ablations/run/command_trial.h"
#include "files/files.h"
#include "files/printable.h"
#include "harness/process/process.h"
#include "harness/process/unfit.h"
#include "plots/again.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace cli {

namespace fs = std::filesystem;
using files::printable;
using harness::ChildResult;

namespace {

constexpr double git_limit_s = 600, prepare_limit_s = 3600;
constexpr const char* marker = "made-by-ladder-gate";  // beside the worktrees: they may be removed

// Python's venv, which shows the packages that its maker sees. Those that --prepare installs come before them.
constexpr const char* environment_maker = R"(import importlib.util, os, sys, venv
to = sys.argv[1]
venv.EnvBuilder(symlinks=True).create(to)
packages = os.path.join(to, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")
with open(os.path.join(packages, "zzz-packages-of-the-user.pth"), "w") as file:
    for path in sys.path:
        if os.path.basename(path) in ("site-packages", "dist-packages"):
            file.write("import site; site.addsitedir(%r)\n" % path)
if importlib.util.find_spec("pip"):
    with open(os.open(os.path.join(to, "bin", "pip"), os.O_WRONLY | os.O_CREAT, 0o755), "w") as file:
        file.write('#!/bin/sh\nexec "$(dirname "$0")/python" -m pip "$@"\n')
)";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void remove_worktree(const fs::path& place, const fs::path& log) {
  try {
    (void)git({"worktree", "remove", "--force", place.string()}, log);
  } catch (const std::exception& error) {
    fmt::print(stderr, "note: {} stays: {}\n", place.string(), error.what());
  }
}

// Those of gates that were killed. A folder that is not marked as ours is not touched.
void remove_abandoned(const fs::path& log) {
  for (const std::string& line : lines_of(git({"worktree", "list", "--porcelain"}, log))) {
    if (!line.starts_with("worktree ")) continue;
    const fs::path place = line.substr(9), folder = place.parent_path();
    if (!fs::exists(folder / marker) || !fs::exists(place)) continue;
    try {
      if (!harness::FolderLock(folder).holds()) continue;
    } catch (const std::invalid_argument&) {  // its gate is at work
      continue;
    }
    fmt::print(stderr, "note: {} is left of a gate that was killed, and is removed\n", printable(place.string()));
    remove_worktree(place, log);
  }
}

std::string commit_of(const std::string& flag, const std::string& named, const fs::path& log) {
  try {
    return git({"rev-parse", "--verify", "--end-of-options", named + "^{commit}"}, log);
  } catch (const std::invalid_argument&) {
    const bool shallow = git({"rev-parse", "--is-shallow-repository"}, log) == "true";
    throw std::invalid_argument(fmt::format(
        "{} {}: no such commit or branch{}", flag, named,
        shallow ? " in this shallow clone: git fetch --unshallow, or fetch-depth: 0 at actions/checkout" : " here"));
  }
}

// What the side's commands find first: a Python environment that is not the user's. Empty: there is no Python.
std::vector<std::string> own_environment(const CommitSide& side, const fs::path& log) {
  const fs::path folder = environment_of(side);
  const char* const path = std::getenv("PATH");
  const ChildResult child = harness::run_child(
      {.argv = {"/bin/sh", "-c",
                R"(python=$(command -v python || command -v python3) || exit 0; exec "$python" -c "$0" "$1")",
                environment_maker, folder.string()},
       .log = log,
       .limit_s = git_limit_s});
  if (!child.succeeded()) {
    fmt::print(stderr, "note: {} has no Python environment of its own: {}\n", side.name, last_line(log));
    return {};
  }
  fs::remove(log);
  if (!fs::exists(folder)) return {};
  return {"VIRTUAL_ENV=" + folder.string(),
          fmt::format("PATH={}{}", (folder / "bin").string(), path == nullptr ? "" : ":" + std::string(path))};
}

bool is_in(const fs::path& file, const fs::path& folder) { return file.string().starts_with(folder.string() + "/"); }

// Whether a Python environment that lies in the user's checkout has the file: it is not of the repository.
bool is_of_environment(fs::path file, const fs::path& root) {
  while (is_in(file, root)) {
    file = file.parent_path();
    if (fs::exists(file / "pyvenv.cfg") || fs::exists(file / "conda-meta")) return true;
  }
  return false;
}

// "trainer/model.py" of ".../site-packages/trainer/model.py". Empty: it is not installed.
std::string installed_as(const fs::path& file) {
  for (const char* packages : {"/site-packages/", "/dist-packages/"}) {
    const size_t at = file.string().rfind(packages);
    if (at != std::string::npos) return file.string().substr(at + std::string_view(packages).size());
  }
  return "";
}

}  // namespace

std::string git(const std::vector<std::string>& words, const fs::path& log) {
  std::vector<std::string> argv{"/usr/bin/env", "git", "-c", "core.hooksPath=/dev/null"};
  argv.insert(argv.end(), words.begin(), words.end());
  std::string printed;
  const ChildResult child = harness::run_child({.argv = argv,
                                                .log = log,
                                                .ends_at_interrupt = false,
                                                .limit_s = git_limit_s,
                                                .on_output = [&](int stream, std::string_view bytes) {
                                                  if (stream == 0) printed += bytes;
                                                  return true;
                                                }});
  const std::string said = files::read_end(log, 4096);
  fs::remove(log);
  const auto without_end = [](std::string text) {
    text.erase(text.find_last_not_of('\n') + 1);
    return text;
  };
  if (child.succeeded()) return without_end(std::move(printed));
  throw std::invalid_argument(fmt::format("git {}: {}", fmt::join(words, " "),
                                          said.empty() ? child.describe(git_limit_s) : printable(without_end(said))));
}

std::string command_text(const std::vector<std::string>& words) {
  if (words.size() == 1) return words.front();
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(plots::for_shell(word));
  return fmt::format("{}", fmt::join(quoted, " "));
}

std::vector<Rung> arms_of(const std::string& text, const std::vector<CommitSide>& sides) {
  std::vector<Rung> arms;
  for (const CommitSide& side : sides) {
    Rung arm = rungs_of_commands({text}, Mode::cumulative).front();
    arm.title = files::shortened(text, 60);
    arm.name = fmt::format("{}-command", side.name);
    arm.program = side.commit;
    arm.command->text = arm.command->typed = text;
    arm.command->directory = side.directory;
    arm.command->variables = side.variables;
    arms.push_back(std::move(arm));
  }
  arms.back().against = 0;
  return arms;
}

fs::path environment_of(const CommitSide& side) { return side.place.string() + "-environment"; }

void prepare_side(CommitSide& side, const std::string& prepare, const fs::path& logs) {
  fmt::print(stderr, "preparing {} ...\n", side.name);
  const fs::path log = logs / fmt::format("prepare-{}.log", side.name);
  side.variables = own_environment(side, log);
  const ChildResult child = harness::run_child({.argv = {"/bin/sh", "-c", prepare},
                                                .log = log,
                                                .limit_s = prepare_limit_s,
                                                .environment = side.variables,
                                                .of_others = true,
                                                .directory = side.directory});
  if (child.succeeded() || child.end == ChildResult::End::interrupted) return;
  show_end(log);
  throw std::runtime_error(fmt::format("--prepare failed in {}: {}; all that it printed: {}", side.name,
                                       child.describe(prepare_limit_s), log.string()));
}

Worktrees::Worktrees(const std::vector<NamedCommit>& named, const fs::path& out)
    : out_(out / "worktrees"), log_(out / "logs" / "git.log") {
  // In a hook they name the index and the folder of the commit at work.
  for (const std::string& name : lines_of(git({"rev-parse", "--local-env-vars"}, log_))) ::unsetenv(name.c_str());
  try {
    root_ = git({"rev-parse", "--show-toplevel"}, log_);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(
        fmt::format("commits are compared here: run it in a git repository ({})", error.what()));
  }
  remove_abandoned(log_);
  const fs::path deep = git({"rev-parse", "--show-prefix"}, log_);
  for (const auto& [name, flag, commit] : named) {
    const fs::path place = out_ / name;
    sides_.push_back(
        {.name = name, .commit = commit_of(flag, commit, log_), .place = place, .directory = place / deep});
  }
  lock_.emplace(out_);
  files::write_file(out_ / marker, "");
}

Worktrees::~Worktrees() {
  for (const CommitSide& side : sides_) {
    if (fs::exists(side.place / ".git")) remove_worktree(side.place, log_);
  }
}

void Worktrees::add(const std::vector<std::string>& commits) {
  const fs::path deep = sides_.front().directory.lexically_relative(sides_.front().place);
  for (size_t i = 0; i < commits.size(); ++i) {
    const std::string name = fmt::format("c{:02}", i + 1);
    const fs::path place = out_ / name;
    sides_.push_back({.name = name, .commit = commits[i], .place = place, .directory = place / deep});
  }
}

void Worktrees::make(CommitSide& side, const std::string& prepare) {
  if (harness::interrupted()) return;
  (void)git({"worktree", "add", "--quiet", "--detach", side.place.string(), side.commit}, log_);
  try {
    if (!prepare.empty()) prepare_side(side, prepare, log_.parent_path());
  } catch (const std::runtime_error& error) {
    if (&side == &sides_.front()) throw harness::Unfit(error.what());
    throw;
  }
}

void Worktrees::drop(const CommitSide& side) {
  remove_worktree(side.place, log_);
  fs::remove_all(environment_of(side));
}

std::string Worktrees::lacks(const CommitSide& side, const fs::path& trial_log) const {
  std::string words;
  std::string said = files::read_end(trial_log, 8192);
  std::ranges::replace_if(
      said, [](char c) { return std::string_view(" \n\t\"'`()[]<>:,=").find(c) != std::string_view::npos; }, ' ');
  std::istringstream stream(said);
  std::error_code error;
  for (std::string word; words.empty() && stream >> word;) {
    if (word.starts_with('/') || word == "." || word == ".." || !fs::exists(fs::current_path() / word, error)) continue;
    if (fs::exists(side.directory / word, error)) continue;
    words = fmt::format(
        "; {0} is in your folder, but not in the commit: --prepare \"mkdir -p $(dirname {0}) && ln -s {1} {0}\"",
        printable(word), printable((fs::current_path() / word).string()));
  }
  if (fs::exists(side.place / ".gitmodules")) {
    words += "; a worktree has no submodules: --prepare 'git submodule update --init --recursive'";
  }
  return words.empty() ? "; a worktree has committed files only, so --prepare must make the others" : words;
}

std::vector<fs::path> Worktrees::code_of_both() const {
  const CommitSide &base = sides_[0], &head = sides_[1];
  std::vector<fs::path> both;
  std::ranges::set_intersection(base.code, head.code, std::back_inserter(both));
  const std::vector<std::string> tracked = lines_of(git({"-C", root_.string(), "ls-files"}, log_)),
                                 changed = lines_of(git({"diff", "--name-only", base.commit, head.commit}, log_));
  std::erase_if(both, [&](const fs::path& file) {
    if (const std::string name = installed_as(file); !name.empty()) {
      return std::ranges::none_of(tracked, [&](const std::string& of) { return ("/" + of).ends_with("/" + name); });
    }
    if (!is_in(file, root_) || is_in(file, out_) || is_of_environment(file, root_)) return true;
    const std::string name = file.lexically_relative(root_).string();
    return std::ranges::find(tracked, name) != tracked.end() && std::ranges::find(changed, name) == changed.end();
  });
  return both;
}

}  // namespace cli
