#include "ablations/archive/study_files.h"

#include "ablations/run/study_folder.h"
#include "ablations/study/analysis.h"
#include "files/printable.h"

#include <algorithm>

namespace ablations {

namespace fs = std::filesystem;
using files::Json;
using files::printable;

namespace {

// The first record of a run that was made again; null if there is no such file.
Json first_of(const fs::path& record) {
  const fs::path file = flagged_file(record);
  return fs::exists(file) ? files::read_json(file, "record") : Json();
}

}  // namespace

std::string last_part(const fs::path& path) {
  return printable(fs::weakly_canonical(fs::absolute(path)).filename().string());
}

StudyFiles computed_study(const Plan& plan, const fs::path& folder) {
  check_records_are_of(plan, folder, Unnamed::counts);
  StudyFiles files{.source = last_part(folder), .study = sealed(analyse(plan, folder), folder)};
  files.edits = edits_since(plan, folder);
  for (const StudyRun& run : files.study.runs) {
    const bool ok = run.status == RunStatus::ok;
    const fs::path file = ok ? folder / *run.record : fs::path();
    files.records.push_back(ok ? files::read_json(file, "record") : Json());
    files.first_records.push_back(ok ? first_of(file) : Json());
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

}  // namespace ablations
