#include "ablations/run/study_folder.h"

#include <fmt/format.h>

#include <stdexcept>
#include <system_error>
#include <vector>

namespace ablations {

namespace fs = std::filesystem;

void create_study(const Plan& plan, const fs::path& folder) {
  if (fs::exists(folder / "plan.json")) {
    throw std::invalid_argument(fmt::format(
        "{}: holds a study already; --resume completes it, or name another folder with --out", folder.string()));
  }
  fs::create_directories(folder);
  harness::write_json(folder / "plan.json", to_json(plan), "plan");
}

Plan open_study(const fs::path& folder) {
  const fs::path file = folder / "plan.json";
  if (!fs::exists(file)) throw std::invalid_argument(fmt::format("{}: holds no study (no plan.json)", folder.string()));
  return plan_from_json(harness::read_json(file, "plan"), file.string());
}

fs::path record_file(const fs::path& folder, const std::string& run_id) {
  return folder / "records" / (run_id + ".json");
}

fs::path flagged_file(const fs::path& record) { return fs::path(record).replace_extension(".flagged.json"); }

fs::path trace_file(const fs::path& folder, const Rung& rung) {
  return folder / "traces" / (name_of(rung) + ".trace.json");
}

void remove_unfinished_files(const fs::path& folder) {
  std::vector<fs::path> unfinished;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".tmp" && !entry.is_directory()) unfinished.push_back(entry.path());
  }
  std::error_code ignored;
  for (const fs::path& file : unfinished) fs::remove(file, ignored);
}

}  // namespace ablations
