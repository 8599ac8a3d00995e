#include "study/gate/side.h"

#include "ablations/run/run_setting.h"
#include "ablations/run/study_folder.h"
#include "files/files.h"
#include "study/analysis.h"
#include "study/archive/study_files.h"
#include "study/gate/baseline_file.h"
#include "study/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

namespace study {

namespace fs = std::filesystem;
using files::Json;

namespace {

// What a record without a plan is called.
std::string record_label(const Record& record) {
  if (record.command) return record.command->text;
  if (record.optimizations.empty()) return "start";
  return "+ " + (record.title.empty() ? record.optimizations.back() : record.title);
}

void add_study(Side& side, const fs::path& folder) {
  const Plan plan = open_study(folder);
  if (plan.gate) {
    throw std::invalid_argument(
        fmt::format("{}: is a gate; its comparison is in its gate.json, and ladder gate --resume --out {} shows it",
                    folder.string(), folder.string()));
  }
  check_records_are_of(plan, folder, Unnamed::counts);
  const Study study = analyse(plan, folder);
  std::vector<PlannedRun> runs = plan.runs;
  std::ranges::stable_sort(runs, {}, &PlannedRun::rung);  // as the ladder shows them; repeats stay in order
  for (const PlannedRun& run : runs) {
    const Rung& rung = plan.rungs[run.rung];
    const fs::path file = record_file(folder, run.id);
    if (!rung.peer.empty() || !fs::exists(file)) continue;
    auto record = read_document<Record>(file);
    if (!record.losses) record.losses = rung.losses;
    add_record(side, label_of(plan, run.rung, rung.title), record, &study.rungs[run.rung]);
  }
}

void add_records(Side& side, const fs::path& folder) {
  std::vector<Record> records;
  std::set<std::string> seen;  // a shard's records are in the merged study, too: each counts once
  const auto may_be_record = [](const fs::path& file) {
    const std::string name = file.filename().string();
    return name.ends_with(".json") && !name.ends_with(".flagged.json") && fs::is_regular_file(file);
  };
  for (const fs::path& file : files::files_below(folder, may_be_record)) {
    const Json document = files::read_any_json(file);
    if (files::kind_of(document) != Record::kind) continue;
    auto record = value_from<Record>(document, file.string());
    if (!record.is_of_peer() && seen.insert(document.dump()).second) records.push_back(std::move(record));
  }
  std::ranges::stable_sort(records, {},
                           [](const Record& record) { return std::pair(record.optimizations.size(), record.started); });
  for (const Record& record : records) add_record(side, record_label(record), record);
}

}  // namespace

std::string recipe_hash_of(const Record& record) {
  if (record.command) return command_hash(record.command->text, record.command->unit);
  return recipe_hash(record.recipe, record.workload);
}

void add_record(Side& side, const std::string& label, const Record& record, const StudyRung* rung) {
  std::string why = why_no_number(record);
  if (why.empty() && rung != nullptr && !rung->is_measured()) {
    why = fmt::format("its rung is {}: {}", name_of(rung->status), rung->reason);
  }
  if (record.command && !record.flags) why = "it is of a log, which has no pair: `ladder read` compares logs";
  if (const auto& command = record.command; why.empty() && command) {
    // A number is a time if it is one of the run's own; a name such as "seconds_lost" says nothing.
    const auto value = std::ranges::find_if(command->numbers, [&](const auto& number) {
      return std::ranges::find(command->seconds, number.second) == command->seconds.end();
    });
    if (value != command->numbers.end()) why = fmt::format("its study compares {}, not times", value->first);
  }
  if (!why.empty()) {
    side.left_out.push_back(fmt::format("{}: {}", record.id, why));
    return;
  }
  (void)run_data(record);  // throws for one that contradicts itself
  const std::string hash = recipe_hash_of(record);
  const auto sample = std::ranges::find_if(side.samples, [&](const Sample& other) {
    return other.label == label && recipe_hash_of(other.records.front()) == hash;
  });
  if (sample == side.samples.end()) {
    side.samples.push_back({label, {record}, {}});
  } else {
    sample->records.push_back(record);
  }
}

Side read_side(const fs::path& path) {
  Side side{.source = path.string(), .samples = {}, .left_out = {}};
  if (fs::is_directory(path) && !fs::exists(path / "plan.json")) {
    add_records(side, path);
  } else if (fs::is_directory(path) || path.filename() == "study.json") {
    add_study(side, StudyPlace(path).folder());
  } else if (const Json document = files::read_any_json(path); files::kind_of(document) == Baseline::kind) {
    side.samples.push_back(sample_of(read_baseline(path)));
  } else {
    const auto record = value_from<Record>(document, path.string());
    add_record(side, record_label(record), record);
  }
  if (side.samples.empty()) {
    throw std::invalid_argument(fmt::format("{}: has no run with a valid time{}", path.string(),
                                            side.left_out.empty() ? "" : ": " + side.left_out.front()));
  }
  return side;
}

}  // namespace study
