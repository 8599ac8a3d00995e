#include "study/archive/study_place.h"

#include "files/files.h"
#include "files/printable.h"
#include "study/archive/study_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <stdexcept>

namespace study {

namespace fs = std::filesystem;

StudyPlace::StudyPlace(const fs::path& path) : folder_(files::named_folder(path)), name_(last_part(path)) {
  if (!fs::exists(path)) throw std::invalid_argument(fmt::format("{}: no such file or folder", path.string()));
  if (path.filename() == "study.json") {
    folder_ = files::named_folder(fs::absolute(path).parent_path());
    name_ = last_part(folder_);
  }
  if (!fs::is_directory(folder_)) {
    throw std::invalid_argument(fmt::format("{}: must be a study: its folder or its study.json", path.string()));
  }
  if (fs::exists(folder_ / "plan.json")) return;
  std::set<std::string> there;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    if (fs::exists(entry.path() / "plan.json")) there.insert(files::printable(entry.path().filename().string()));
  }
  throw std::invalid_argument(
      fmt::format("{}: holds no study (no plan.json){}", folder_.string(),
                  there.empty() ? "" : fmt::format("; name one in it: {}", fmt::join(there, ", "))));
}

}  // namespace study
