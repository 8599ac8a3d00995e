#include "ablations/run/study_folder.h"

#include "ablations/plan/shard.h"
#include "files/files.h"
#include "files/printable.h"
#include "harness/process/locks.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace ablations {

namespace fs = std::filesystem;
using files::Json;

const std::set<std::string>& files_of_study() {
  static const std::set<std::string> names{study_file,  "report.json", "report.html",  "report.md",  "gate.json",
                                           "gate.html", "summary.md",  "unsaved.json", "drawing.log"};
  return names;
}

const std::set<std::string>& folders_of_study() {
  static const std::set<std::string> names{"records", "logs", "traces", "charts", "baselines", "runs", "looks"};
  return names;
}

// Whether a trial of commands left it, and no study: killed, or for a gate that failed (command_trial.h).
static bool is_of_trials(const fs::directory_entry& part) {
  const std::string name = part.path().filename();
  if (part.is_symlink() || !part.is_directory() || (name != "logs" && name != "runs")) return false;
  return std::ranges::all_of(fs::directory_iterator(part.path()), [](const fs::directory_entry& entry) {
    const std::string inner = entry.path().filename();
    return inner.starts_with("trial-") || inner.starts_with("prepare-") || inner == "git.log";
  });
}

void check_holds_nothing(const fs::path& folder, const std::string& document, std::string_view what) {
  if (!fs::exists(folder)) return;
  if (!fs::is_directory(folder)) throw std::invalid_argument(fmt::format("{}: is not a folder", folder.string()));
  if (fs::exists(folder / document)) {
    throw std::invalid_argument(fmt::format(
        "{}: holds a {} already; --resume continues it, or name another folder with --out", folder.string(), what));
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (files::is_unfinished(name, document) || is_of_trials(entry)) continue;  // its writer was killed
    throw std::invalid_argument(
        fmt::format("{}: is not empty ({} is in it); a {} needs a new or an empty folder, name another one with --out",
                    folder.string(), name, what));
  }
}

void check_may_begin(const fs::path& folder) { check_holds_nothing(folder, "plan.json", "study"); }

void create_study(const Plan& plan, const fs::path& folder) {
  check_may_begin(folder);
  make_study_folder(folder);
  const harness::FolderLock lock(folder);
  check_may_begin(folder);  // nobody else can begin one now
  remove_unfinished_files(folder, {"plan.json"});
  write_document(folder / "plan.json", plan);
}

void make_study_folder(const fs::path& folder) {
  const fs::path around = (fs::absolute(folder) / "").parent_path().parent_path();
  const bool is_ours = std::set<std::string>{"measured", "studies", "gates"}.contains(around.filename());
  if (is_ours && fs::create_directories(around)) files::write_file(around / ".gitignore", "*\n");
  fs::create_directories(folder);
}

void check_has_no_links(const fs::path& folder, const std::set<std::string>& names) {
  for (const std::string& name : names) files::refuse_link(folder / name);
}

Plan open_study(const fs::path& folder) {
  const fs::path file = folder / "plan.json";
  if (!fs::exists(file)) throw std::invalid_argument(fmt::format("{}: holds no study (no plan.json)", folder.string()));
  return value_from<Plan>(files::read_any_json(file), file.string());
}

fs::path record_file(const fs::path& folder, const std::string& run_id) {
  return folder / "records" / (run_id + ".json");
}

fs::path flagged_file(const fs::path& record) { return fs::path(record).replace_extension(".flagged.json"); }

namespace {

// Of a run of a command.
std::string failure_of_command(const Record& record, const Plan& plan, const PlannedRun& run) {
  if (!record.command) return "it is not of a command";
  if (const auto& metric = plan.commands->metric; metric && !record.command->numbers.contains(metric->name)) {
    return fmt::format("it has no \"{}\"", metric->name);
  }
  const std::vector<int64_t>& steps = record.command->steps;
  const RunTiming& timing = record.timing;
  const Rung& rung = plan.rungs[run.rung];
  const std::string& commit = rung.program.empty() ? rung.command->trial.commit : rung.program;
  if (record.command->text != rung.command->text) return "its command is not the planned one";
  if (record.command->commit.value_or("") != commit) return "its commit is not the planned one";
  if (steps.size() != timing.step_ms.size() + 1 || record.command->seconds.size() != steps.size() ||
      timing.loss.size() != timing.step_ms.size()) {
    return fmt::format("it has {} times, {} losses and {} lines", timing.step_ms.size(), timing.loss.size(),
                       steps.size());
  }
  if (!std::ranges::is_sorted(steps, std::ranges::less_equal())) return "its steps do not go up";
  const auto first_timed = static_cast<size_t>(std::clamp<int64_t>(timing.warmup_steps, 0, std::ssize(steps) - 1));
  if (steps[first_timed] - steps.front() < plan.warmup_steps) return "its steps of warm-up are not the planned ones";
  if (steps.back() - steps[first_timed] < plan.timed_steps) return "it has fewer timed steps than the plan";
  return "";
}

}  // namespace

std::string failure_of(const Record& record, const Plan& plan, const PlannedRun& run) {
  if (!record.is_ok()) return "its run failed";
  if (record.id != run.id) return fmt::format("it is of run {}", files::in_quotes(record.id));
  if (plan.commands) return failure_of_command(record, plan, run);
  if (record.command) return "it is of a command";
  const Rung& rung = plan.rungs[run.rung];
  const Json differing = recipe_diff(record.recipe, rung.recipe);
  for (const auto& [field, values] : differing.items()) {
    // A peer has the plain value of what only our own operations have.
    if (rung.peer.empty() || values.at(0) != files::field_or_null(plain_recipe(), field.c_str())) {
      return "its recipe is not the planned one";
    }
  }
  const std::string planned_torch = peer_name(rung.peer).torch;
  const std::string torch = short_version(record.environment.torch.value_or("not known"));
  if (!planned_torch.empty() && torch != planned_torch) {
    return fmt::format("its PyTorch is {}, not the planned {}", torch, planned_torch);
  }
  const RunTiming& timing = record.timing;
  if (timing.warmup_steps != plan.warmup_steps) return "its steps of warm-up are not the planned ones";
  const Shape shape = shape_of(plan, run.rung);
  const Workload& workload = record.workload;
  if (workload.model != plan.workload.model) return "its model is not the planned one";
  if (workload.seed != plan.workload.seed) return "its seed is not the planned one";
  if (workload.random_windows != plan.workload.random_windows) return "its windows are not the planned ones";
  if (workload.B != shape.B || workload.T != shape.T || workload.accumulation != shape.accumulation ||
      (shape.positions > 0 && workload.positions != shape.positions)) {
    return "its steps are not of the planned size";
  }
  const auto least = static_cast<size_t>(plan.warmup_steps + plan.timed_steps);
  const auto most = static_cast<size_t>(plan.warmup_steps + most_timed_steps(plan.timed_steps, plan.least_window_s));
  const size_t steps = std::clamp(timing.step_ms.size(), least, most);
  for (const auto& [series, values] : {std::pair{"step_ms", timing.step_ms.size()},
                                       {"loss", timing.loss.size()},
                                       {"page_faults", timing.page_faults.size()}}) {
    if (values != steps) return fmt::format("it has {} values of {}, the plan has {}", values, series, steps);
  }
  return "";
}

PlanIdentity plan_identity(const Plan& plan) { return value_from<PlanIdentity>(identity_of(plan), "the plan"); }

std::string another_plan_of(const Record& record, const PlanIdentity& identity) {
  if (!record.plan || *record.plan == identity) return "";
  const auto words = [](const PlanIdentity& plan) {
    return fmt::format("{}, SHA-256 {}", plan.id, plan.sha256.substr(0, 12));
  };
  return fmt::format("was made for another plan ({}) than the one here ({})", words(*record.plan), words(identity));
}

void check_records_are_of(const Plan& plan, const fs::path& folder, Unnamed unnamed) {
  if (!fs::is_directory(folder / "records")) return;
  const PlanIdentity identity = plan_identity(plan);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "records")) {
    if (entry.path().extension() != ".json") continue;
    Record record;
    try {
      record = read_document<Record>(entry.path());
    } catch (const std::invalid_argument&) {  // counts for no study
      continue;
    }
    std::string why = another_plan_of(record, identity);
    if (why.empty() && unnamed == Unnamed::refused && !record.plan) {
      why = "does not say for which plan it was made (records of older versions do not)";
    }
    if (why.empty()) continue;
    throw std::invalid_argument(
        fmt::format("{}: {}; move it out of this folder, or begin in another one", entry.path().string(), why));
  }
}

std::optional<Record> good_record(const fs::path& folder, const Plan& plan, const PlannedRun& run) {
  const fs::path file = record_file(folder, run.id);
  if (!fs::exists(file)) return std::nullopt;
  try {
    auto record = read_document<Record>(file);
    if (failure_of(record, plan, run).empty()) return record;
  } catch (const std::invalid_argument&) {  // counts for no study
  }
  return std::nullopt;
}

fs::path trace_file(const fs::path& folder, const Rung& rung) {
  return folder / "traces" / (name_of(rung) + ".trace.json");
}

std::string last_line(const fs::path& log, const char* ends) {
  std::string text = files::read_end(log, 4096);
  text.erase(text.find_last_not_of(" \r\n") + 1);
  return files::shortened(files::printable(text.substr(text.find_last_of(ends) + 1)), 300);
}

fs::path child_file(const fs::path& folder, const std::string& run_id) {
  return folder / "records" / (run_id + ".child.tmp");
}

void remove_unfinished_files(const fs::path& folder, const std::set<std::string>& names) {
  std::vector<fs::path> unfinished;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (names.contains(files::finished_name(name)) && !entry.is_directory()) unfinished.push_back(entry.path());
  }
  std::error_code ignored;
  for (const fs::path& file : unfinished) fs::remove(file, ignored);
}

void remove_unfinished_files(const Plan& plan, const fs::path& folder) {
  std::set<std::string> records;
  for (const PlannedRun& run : plan.runs) {
    const fs::path record = record_file(folder, run.id), child = child_file(folder, run.id);
    for (const fs::path& file : {record, flagged_file(record), child}) records.insert(file.filename().string());
    std::error_code ignored;
    fs::remove(child, ignored);
  }
  remove_unfinished_files(folder, files_of_study());
  remove_unfinished_files(folder / "records", records);
}

}  // namespace ablations
