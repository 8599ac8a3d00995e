// The files of a study of commands: its folder while it begins, those that the commands name, and those that they
// write.
#pragma once

#include "files/json_file.h"
#include "harness/lines/step_reader.h"
#include "harness/process/locks.h"
#include "results/common.h"
#include "results/plan.h"
#include "text/rooms.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
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

// Files in `directory` that are newer than `since`, without what Python keeps and without `out`: 20 at most.
std::vector<std::string> written_since(const std::filesystem::path& directory, std::filesystem::file_time_type since,
                                       const std::filesystem::path& out);

// The lines that a client writes into a run's file (client/ladder_client.py), read as they come.

class ClientLog {
 public:
  explicit ClientLog(std::filesystem::path file) : file_(std::move(file)) {}

  // Steps that have come since the last call. begun_s: when the run began, by the clock of the lines. A line that says
  // an earlier time than the line before it, or a later one than now, came now. Nothing is read of what is no regular
  // file, or lies beyond its first 64 MiB.
  std::vector<harness::StepLine> read(double begun_s);

  [[nodiscard]] bool has_begun() const {
    std::error_code none;
    return std::filesystem::is_regular_file(std::filesystem::symlink_status(file_, none));
  }
  [[nodiscard]] std::optional<int64_t> tokens() const { return tokens_; }  // of a step
  // What the program says of itself, and what it has checked.
  [[nodiscard]] const std::map<std::string, std::string>& stated() const { return stated_; }
  [[nodiscard]] const std::vector<Proof>& proofs() const { return proofs_; }

 private:
  void take_words(const files::Json& line);

  std::filesystem::path file_;
  uint64_t at_ = 0;
  double last_s_ = 0;
  double ahead_s_ = 0;  // of the lines' clock, where they come from a container with one of its own
  std::optional<int64_t> tokens_;
  std::map<std::string, std::string> stated_;
  std::vector<Proof> proofs_;
};

}  // namespace ablations
