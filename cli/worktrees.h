// Two commits of a repository, each checked out in a worktree of its own with an environment of its own. The user's
// folder, index, hooks and installed packages stay as they are.
#pragma once

#include "harness/process/locks.h"

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cli {

// What git prints on standard output, without its last line end; its hooks do not run. Throws std::invalid_argument
// with git's own words if it fails.
std::string git(const std::vector<std::string>& words, const std::filesystem::path& log);

// One side of a gate of commits.
struct CommitSide {
  const char* name;  // "base"
  std::string commit;
  std::filesystem::path place;                // of its worktree; empty: here, as a calibration's
  std::filesystem::path directory;            // in it: as deep as the folder in which the gate was called
  std::vector<std::string> variables = {};    // "NAME=value": of its own Python environment
  std::set<std::filesystem::path> code = {};  // what its trial read (tried)
};

// The two sides' worktrees in OUT/worktrees, which are gone afterwards. Those of gates that were killed go first.
class Worktrees {
 public:
  // Takes the variables of git's hooks out of this process. Throws std::invalid_argument, with what helps, where there
  // is no repository or no such commit.
  Worktrees(const std::string& base, const std::string& head, const std::filesystem::path& out);
  ~Worktrees();
  Worktrees(const Worktrees&) = delete;  // removes once
  Worktrees& operator=(const Worktrees&) = delete;

  // Checks a side out and runs `prepare` in it, where there is one. Throws harness::Unfit if base cannot be prepared,
  // std::runtime_error if head cannot. Returns at an interrupt, too.
  void make(CommitSide& side, const std::string& prepare);
  [[nodiscard]] std::vector<CommitSide>& sides() { return sides_; }

  // What a worktree lacks of the user's folder, by what the side's trial printed: "; data/train.bin is ...".
  [[nodiscard]] std::string lacks(const CommitSide& side, const std::filesystem::path& trial_log) const;
  // Files of the repository's code that both sides read, and at one place: what is compared is then one program with
  // itself. Empty: there is none.
  [[nodiscard]] std::vector<std::filesystem::path> code_of_both() const;

 private:
  std::filesystem::path out_, log_, root_;
  std::vector<CommitSide> sides_;
  std::optional<harness::FolderLock> lock_;  // while it is held they are not abandoned
};

}  // namespace cli
