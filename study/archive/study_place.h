// Where a study is: its folder (ablations/run/study_folder.h).
#pragma once

#include <filesystem>
#include <string>

namespace study {

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
