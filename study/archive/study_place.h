// Where a study is: in a folder (ablations/run/study_folder.h), or packed in two files, as gpu-check does.
// NAME.study.json is the folder's study.json. NAME.records.jsonl has every other file on its own line: {"file":
// "records/ID.json", "document": {...}}.
#pragma once

#include "files/files.h"

#include <filesystem>
#include <optional>
#include <string>

namespace ablations {

class StudyPlace {
 public:
  // Takes FOLDER, FOLDER/study.json or NAME.study.json. The files of the last are unpacked into a temporary folder,
  // byte for byte. Throws std::invalid_argument if the path is missing or holds no study, or a file cannot be read.
  // Also for lines of files outside the folder.
  explicit StudyPlace(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] bool is_packed() const { return unpacked_.has_value(); }
  // The last part of the path it was found under, printable.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::optional<files::TemporaryFolder> unpacked_;
  std::filesystem::path folder_;
  std::string name_;
};

// Whether a file is a packed study's, by its name.
bool is_packed_study(const std::filesystem::path& file);

}  // namespace ablations
