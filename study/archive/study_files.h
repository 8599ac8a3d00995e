// A study with the files of its folder, for a report.
#pragma once

#include "ablations/plan/make_plan.h"
#include "results/record.h"
#include "results/study.h"
#include "study/archive/seal.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace study {

struct StudyFiles {
  std::string source;  // the last part of its name, printable
  Plan plan;
  Study study;
  std::vector<std::optional<Record>> records;        // one for each of the study's runs; none: none that ended well
  std::vector<std::optional<Record>> first_records;  // likewise, of runs that were disturbed and made again
  std::vector<TraceDocument> traces;
  std::vector<std::filesystem::path> with;  // with/*.json, to be shown beside it
  std::vector<Finding> edits;               // since its study.json was made
};

// The study computed from the records in its folder, sealed. Writes nothing. Throws std::invalid_argument for a record
// or a trace that cannot be read.
StudyFiles computed_study(const Plan& plan, const std::filesystem::path& folder);

// The last part of a path, printable: what a page may say of where something was.
std::string last_part(const std::filesystem::path& path);

// Where a study is: its folder (ablations/run/study_folder.h).

class StudyPlace {
 public:
  // Takes FOLDER or FOLDER/study.json. Throws std::invalid_argument if the path is missing or holds no study.
  explicit StudyPlace(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  // The last part of the folder's path, printable.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::filesystem::path folder_;
  std::string name_;
};

}  // namespace study
