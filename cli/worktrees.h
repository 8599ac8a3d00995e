// Commits of a repository, each checked out in a worktree of its own with an environment of its own. The user's folder,
// index, hooks and installed packages stay as they are.
#pragma once

#include "harness/process/locks.h"
#include "results/plan.h"
#include "text/rooms.h"

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cli {

// What git prints on standard output, without its last line end; its hooks do not run. Throws std::invalid_argument
// with git's own words if it fails.
std::string git(const std::vector<std::string>& words, const std::filesystem::path& log);

// One side of a gate of commits, or a commit of a bisection.
struct CommitSide {
  std::string name;  // "base"
  std::string commit;
  std::filesystem::path place;                // of its worktree; empty: here, as a calibration's
  std::filesystem::path directory;            // in it: as deep as the folder in which the gate was called
  std::vector<std::string> variables = {};    // "NAME=value": of its own Python environment
  std::set<std::filesystem::path> code = {};  // what its trial read (tried)
};

// One word is a command line already; several are quoted as they were given.
std::string command_text(const std::vector<std::string>& words);

// The rungs of a command on these sides.
std::vector<Rung> arms_of(const std::string& text, const std::vector<CommitSide>& sides);

// Of its own Python environment.
std::filesystem::path environment_of(const CommitSide& side);

// Runs `prepare` for sh in the side's directory, with a Python environment of its own beside its place. The log is in
// the folder `logs`. Throws std::runtime_error if it fails. Returns at an interrupt, too.
void prepare_side(CommitSide& side, const std::string& prepare, const std::filesystem::path& logs);

// A commit as it was named on the command line; `flag` begins a refusal: "--base".
struct NamedCommit {
  std::string name, flag, commit;
};

// The sides' worktrees in OUT/worktrees, which are gone afterwards. Those of gates that were killed go first.
class Worktrees {
 public:
  // Takes the variables of git's hooks out of this process. Throws std::invalid_argument, with what helps, where there
  // is no repository or no such commit.
  Worktrees(const std::vector<NamedCommit>& named, const std::filesystem::path& out);
  ~Worktrees();
  Worktrees(const Worktrees&) = delete;  // removes once
  Worktrees& operator=(const Worktrees&) = delete;

  // Adds sides after those that were named; c01 and so on. References to sides end.
  void add(const std::vector<std::string>& commits);

  // Checks a side out and runs `prepare` in it, where there is one. Throws harness::Unfit if the first side cannot be
  // prepared, std::runtime_error if another cannot. Returns at an interrupt, too.
  void make(CommitSide& side, const std::string& prepare);
  // Removes what make has made.
  void drop(const CommitSide& side);
  [[nodiscard]] std::vector<CommitSide>& sides() { return sides_; }

  // What a worktree lacks of the user's folder, by what the side's trial printed: "; data/train.bin is ...".
  [[nodiscard]] std::string lacks(const CommitSide& side, const std::filesystem::path& trial_log) const;
  // Files of the repository's code that the first two sides read, and at one place: what is compared is then one
  // program with itself. Empty: there is none.
  [[nodiscard]] std::vector<std::filesystem::path> code_of_both() const;

 private:
  std::filesystem::path out_, log_, root_;
  std::vector<CommitSide> sides_;
  std::optional<harness::FolderLock> lock_;  // while it is held they are not abandoned
};

}  // namespace cli
