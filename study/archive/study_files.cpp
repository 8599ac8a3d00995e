#include "study/archive/study_files.h"

#include "ablations/run/study_folder.h"
#include "files/files.h"
#include "files/printable.h"
#include "study/analysis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <stdexcept>

namespace study {

namespace fs = std::filesystem;
using files::printable;

std::string last_part(const fs::path& path) {
  return printable(fs::weakly_canonical(fs::absolute(path)).filename().string());
}

StudyFiles computed_study(const Plan& plan, const fs::path& folder) {
  check_records_are_of(plan, folder, Unnamed::counts);
  StudyFiles files{.source = last_part(folder), .plan = plan, .study = sealed(analyse(plan, folder), folder)};
  files.edits = edits_since(plan, folder);
  for (const StudyRun& run : files.study.runs) {
    files.records.emplace_back();
    files.first_records.emplace_back();
    if (run.status != RunStatus::ok) continue;
    const fs::path file = folder / *run.record;
    Record& record = files.records.back().emplace(read_document<Record>(file));
    if (!record.losses) record.losses = plan.rungs[run.rung].losses;  // of an older program
    if (const fs::path first = flagged_file(file); fs::exists(first)) {
      files.first_records.back() = read_document<Record>(first);
    }
  }
  for (const Rung& rung : plan.rungs) {
    if (const fs::path file = trace_file(folder, rung); fs::exists(file)) {
      files.traces.push_back(read_document<TraceDocument>(file));
    }
  }
  if (fs::is_directory(folder / "with")) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder / "with")) {
      if (entry.path().extension() == ".json") files.with.push_back(entry.path());
    }
    std::ranges::sort(files.with);
  }
  return files;
}

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
