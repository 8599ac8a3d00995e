#include "ablations/run/study_folder.h"

#include "ablations/plan/plan_json.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace ablations {

namespace fs = std::filesystem;
using harness::Json;

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

std::string fault_of(const Json& record, const Plan& plan, const PlannedRun& run) {
  if (record.at("status") != "ok") return "it says that it failed";
  if (record.at("id") != run.id) return fmt::format("it is of run {}", record.at("id").dump());
  // Read, so that a field which the record's program did not have yet counts as its default.
  if (model::recipe_from_json(record.at("recipe"), "its recipe") != plan.rungs[run.rung].recipe)
    return "its recipe is not the planned one";
  if (record.at("timing").at("warmup_steps") != plan.warmup_steps)
    return "its steps of warm-up are not the planned ones";
  const Shape shape = shape_of(plan, run.rung);
  const Json& workload = record.at("workload");
  if (workload.at("model") != plan.model) return "its model is not the planned one";
  if (workload.at("seed") != plan.seed) return "its seed is not the planned one";
  if (workload.at("batch") != shape.B || workload.at("context") != shape.T ||
      workload.at("accumulation") != shape.accumulation ||
      (shape.positions > 0 && workload.value("positions", shape.positions) != shape.positions)) {
    return "its steps are not of the planned size";
  }
  const size_t steps = static_cast<size_t>(plan.warmup_steps + plan.timed_steps);
  for (const char* series : {"step_ms", "loss", "page_faults"}) {
    if (record.at("timing").at(series).size() != steps) {
      return fmt::format("{} values of {}, {} planned", record.at("timing").at(series).size(), series, steps);
    }
  }
  return "";
}

bool is_disturbed(const Json& record) { return record.at("status") == "ok" && !record.value("flags", Json()).empty(); }

Json good_record(const fs::path& folder, const Plan& plan, const PlannedRun& run) {
  const fs::path file = record_file(folder, run.id);
  if (!fs::exists(file)) return {};
  try {
    Json record = harness::read_json(file, "record");
    return fault_of(record, plan, run).empty() ? record : Json();
  } catch (const std::invalid_argument&) {
    return {};
  }
}

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
