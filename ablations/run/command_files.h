// The files of a study of commands: its folder while it begins, those that the commands name, and those that they
// write.
#pragma once

#include "files/json_file.h"
#include "harness/lines/rank_steps.h"
#include "harness/lines/step_reader.h"
#include "harness/process/locks.h"
#include "results/common.h"
#include "results/plan.h"
#include "text/rooms.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace ablations {

// The files that the commands name, and Python's beside them, with their SHA-256. ".": the working folder's path.
std::map<std::string, std::string> files_of_commands(const Plan& plan);

// The folder of a study of commands. In the end these parts of it are gone, but for a study's logs, and so is an empty
// one. Nobody else can begin there until it has a plan. Throws std::invalid_argument if somebody has.
class BegunFolder {
 public:
  BegunFolder(std::filesystem::path folder, std::vector<std::string> parts, bool resumes = false);
  ~BegunFolder();
  void has_plan() { lock_.reset(); }
  BegunFolder(const BegunFolder&) = delete;  // removes once
  BegunFolder& operator=(const BegunFolder&) = delete;

 private:
  std::filesystem::path folder_;
  std::vector<std::string> parts_;
  std::optional<harness::FolderLock> lock_;
};

// Throws harness::Unfit where they are not those that the plan was made with, or the working folder is another.
void check_has_its_files(const Plan& plan, const std::filesystem::path& folder);

// Seconds since 1970 by the clock of files' times, which ticks every few milliseconds.
double now_of_files();
// When a file's content or its name, owner or mode was changed, which no program can set back. 0: there is none.
double changed_at(const std::filesystem::path& file);

// Files in `directory` that were changed since then, without what Python keeps and without `out`: 20 at most.
std::vector<std::string> written_since(const std::filesystem::path& directory, double since_s,
                                       const std::filesystem::path& out);

// The lines that a client writes into a run's file (client/ladder_client.py), read as they come. Each rank but the
// lowest has a file of its own beside it: FILE.3.

class ClientLog {
 public:
  explicit ClientLog(std::filesystem::path file) : lowest_{.path = std::move(file)} {}

  // Removes what an earlier run has left.
  void remove() const;

  // Steps that have come since the last call, and that all ranks have made. begun_s: when the run began, by the clock
  // of the lines. A line that says an earlier time than the line before it, or a later one than now, came now. Nothing
  // is read of what is no regular file, or lies beyond its first 64 MiB.
  std::vector<harness::StepLine> read(double begun_s);
  std::vector<harness::StepLine> end() { return ranks_.end(); }  // those that some rank has not made

  [[nodiscard]] bool has_begun() const { return is_there(lowest_); }
  [[nodiscard]] const harness::RankSteps& ranks() const { return ranks_; }
  [[nodiscard]] int64_t ranks_told() const { return ranks_told_; }             // by the lowest
  [[nodiscard]] const std::set<std::string>& hosts() const { return hosts_; }  // of all ranks
  [[nodiscard]] std::optional<int64_t> tokens() const { return tokens_; }      // of a step
  // What the program says of itself, and what it has checked.
  [[nodiscard]] const std::map<std::string, std::string>& stated() const { return stated_; }
  [[nodiscard]] const std::vector<Proof>& proofs() const { return proofs_; }

 private:
  struct File {
    std::filesystem::path path;
    uint64_t at = 0;
    double last_s = 0, read_s = 0;
    double ahead_s = 0;  // of the lines' clock, where they come from a container or a machine with one of its own
  };
  static bool is_there(const File& file) {
    std::error_code none;
    return std::filesystem::is_regular_file(std::filesystem::symlink_status(file.path, none));
  }
  std::vector<harness::StepLine> read(File& file, double begun_s);
  void take_words(const files::Json& line, File& file);

  File lowest_;
  std::map<int64_t, File> others_;
  harness::RankSteps ranks_;
  int64_t ranks_told_ = 1;
  std::set<std::string> hosts_;
  std::optional<int64_t> tokens_;
  std::map<std::string, std::string> stated_;
  std::vector<Proof> proofs_;
};

}  // namespace ablations
