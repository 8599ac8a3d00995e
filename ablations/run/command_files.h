// The files of a study of commands: its folder while it begins, those that the commands name, and those that they
// write.
#pragma once

#include "harness/process/locks.h"
#include "results/plan.h"
#include "text/rooms.h"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
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

}  // namespace ablations
