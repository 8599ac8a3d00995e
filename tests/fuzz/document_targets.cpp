// JSON documents of every kind, each followed to where the program shows what it holds.
#include "ablations/gpt2/ladder_file.h"
#include "ablations/gpt2/modes.h"
#include "ablations/plan/make_plan.h"
#include "ablations/run/study_folder.h"
#include "files/files.h"
#include "files/json_file.h"
#include "files/printable.h"
#include "fuzz/input.h"
#include "fuzz/targets.h"
#include "plots/comparison_text.h"
#include "plots/export.h"
#include "plots/gate_text.h"
#include "plots/history_table.h"
#include "plots/remarks.h"
#include "plots/report_document.h"
#include "plots/study_table.h"
#include "plots/training_summary.h"
#include "study/analysis.h"
#include "study/archive/history_points.h"
#include "study/archive/seal.h"
#include "study/gate/baseline_file.h"
#include "study/gate/compare.h"
#include "study/trace/explain.h"
#include "study/training/training_log.h"
#include "tests/harness/machines.h"

#include <map>
#include <sstream>
#include <stdexcept>

namespace fuzz {
namespace {

namespace fs = std::filesystem;
using files::Json;
using results::Plan;

void require(bool good, const std::string& what) {
  if (!good) throw std::logic_error(what);
}

// Lines of text, each of which a terminal shows as it stands.
void check_shown(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (files::printable(line) != line) {
      throw std::logic_error("a table holds what a terminal acts on: " +
                             Json(line).dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace));
    }
  }
}

// The document that a seed holds; the targets' other side.
Json seed(const std::string& name) {
  const fs::path file = fs::path(FUZZ_SEEDS) / name;
  return files::parse_json(files::read_file(file), file.string());
}

// A study's folder whose records are `record`, whatever that is when it is read.
class Folder {
 public:
  Folder() {
    fs::create_directories(folder_ / "records");
    const Plan plan = results::value_from<results::Plan>(seed("plan/valid.json"), "plan");
    for (const auto& run : plan.runs) {
      fs::create_symlink(record_.path(), ablations::record_file(folder_, run.id));
    }
  }

  void analyse(const Plan& plan, std::string_view record) const {
    record_.write(record);
    const results::Study study = study::sealed(study::analyse(plan, folder_), folder_);
    const Json written = results::json_of(study);
    // As it is written: a number that JSON has no word for is null there.
    (void)results::value_from<results::Study>(Json::parse(written.dump()), "the study");
    check_shown(plots::study_table(study));
    check_shown(files::ascii_text(written));
  }

 private:
  const files::TemporaryFolder temporary_{"ladder-fuzz"};
  const fs::path folder_ = temporary_.path();
  MemoryFile record_;
};

// A folder with nothing but a study.json.
class StoredStudy {
 public:
  StoredStudy() { fs::create_symlink(study.path(), path / "study.json"); }

  const files::TemporaryFolder temporary{"ladder-fuzz-study"};
  const fs::path path = temporary.path();
  const MemoryFile study;
};

// A document that says the same when it is written and read again.
template <class T>
T same_again(const Json& given) {
  const auto read = results::value_from<T>(given, "file");
  const Json written = Json::parse(results::json_of(read).dump());
  require(results::json_of(results::value_from<T>(written, "again")) == written, "it changes when it is copied");
  return read;
}

// The document, for readers that take a file.
const MemoryFile& input() {
  static const MemoryFile file;
  return file;
}

// As `ladder report` shows it.
void show_report(const Json& given) {
  const auto report = same_again<results::Report>(given);
  for (const auto& entry : report.studies) check_shown(plots::study_table(entry.study));
  for (std::string csv : {plots::rungs_csv(report), plots::steps_csv(report)}) {
    std::erase(csv, '\r');
    check_shown(csv);
  }
  check_shown(files::ascii_text(plots::benchmark_json(report)));
  (void)same_again<results::Report>(results::json_of(plots::with_said(report)));
}

void compare_side(const Json&) {
  static const study::Side other = study::read_side(fs::path(FUZZ_SEEDS) / "baseline" / "valid.json");
  const study::Side side = study::read_side(input().path());
  for (const auto& [base, head] : {std::pair(&side, &other), std::pair(&other, &side), std::pair(&side, &side)}) {
    const auto comparison = study::compare_sides(*base, *head, {.force = true});
    (void)same_again<results::Comparison>(results::json_of(comparison));
    check_shown(plots::comparison_table(comparison));
    check_shown(plots::comparison_markdown(comparison));
  }
}

void climb_ladder(const Json&) {
  const results::Ladder ladder = ablations::load_ladder(input().path());
  (void)ablations::climb(ladder, machines::cpu);
  (void)ablations::interleave(ablations::climb(ladder, machines::hopper), 2, 1);
  for (const auto mode : {results::Mode::leave_one_out, results::Mode::one_at_a_time}) {
    (void)taken([&] { (void)ablations::rungs_of(ladder, {.mode = mode}, ladder.workload, machines::hopper); });
  }
}

void show_noise(const Json& given) {
  const auto noise = same_again<results::Noise>(given);
  for (const int64_t pairs : {1, 8, 1000}) (void)study::floor_at(noise, pairs);
  check_shown(plots::noise_table(noise));
}

void analyse_plan(const Json& given) {
  static const Folder folder;
  static const std::string record = seed("record/valid.json").dump();
  folder.analyse(same_again<Plan>(given), record);
}

// As a run of a study, and as a side of a comparison.
void analyse_record(const Json& given) {
  static const Folder folder;
  static const Plan plan = results::value_from<results::Plan>(seed("plan/valid.json"), "plan");
  (void)taken([&] { compare_side(given); });
  folder.analyse(plan, files::read_file(input().path()));
}

// As a report holds it, and as one of a history.
void show_study(const Json& given) {
  static const StoredStudy folder;
  static const Json around = seed("report/valid.json");
  (void)same_again<results::Study>(given);
  Json report = around;
  report["studies"][0].update({{"study", given}, {"runs", Json::array()}, {"losses", Json::array()}});
  show_report(report);
  folder.study.write(files::read_file(input().path()));
  (void)taken([&] { check_shown(plots::history_table(study::history_of(folder.path))); });
}

void explain_trace(const Json& given) {
  static const auto other = results::value_from<results::TraceDocument>(seed("trace/valid.json"), "trace");
  const auto trace = same_again<results::TraceDocument>(given);
  check_shown(study::trace_table(trace));
  for (const auto& [before, after] : {std::pair(other, trace), std::pair(trace, other), std::pair(trace, trace)}) {
    (void)taken([&, &a = before, &b = after] { check_shown(study::explanation_table(study::explain(a, b))); });
  }
}

// Against another one, as where a checkpoint is of another training.
void compare_training(const Json& given) {
  static const auto other = results::value_from<results::Training>(seed("training/valid.json"), "training");
  const auto training = same_again<results::Training>(given);
  for (const std::string& line : results::differences(training.settings, other.settings)) {
    check_shown(files::printable(line));
  }
}

// As the log of a training that goes on: with its table, and on a terminal.
void log_step(const Json& given) {
  static const files::TemporaryFolder folder("ladder-fuzz-training");
  const auto step = same_again<results::TrainingStep>(given);
  check_shown(study::step_line(step, 100, 7));
  const study::TrainingLog log(folder.path(), {step});
  require(study::logged_steps(folder.path()).size() == 1, "a step is lost in the log");
}

}  // namespace

bool read_document(std::string_view bytes) {
  static const std::map<std::string, void (*)(const Json&)> kinds{
      {"baseline", compare_side},
      {"checkpoint", [](const Json& given) { (void)same_again<results::Checkpoint>(given); }},
      {"ladder", climb_ladder},
      {"noise", show_noise},
      {"plan", analyse_plan},
      {"record", analyse_record},
      {"report", show_report},
      {"study", show_study},
      {"trace", explain_trace},
      {"training", compare_training},
      {"training_report",
       [](const Json& given) { check_shown(plots::training_summary(same_again<results::TrainingReport>(given))); }},
      {"training_step", log_step}};
  input().write(bytes);
  return taken([&] {
    const Json given = files::parse_json(bytes, "file");
    const bool is_named = given.is_object() && given.contains("kind") && given["kind"].is_string();
    const auto kind = is_named ? kinds.find(given["kind"].get<std::string>()) : kinds.end();
    (kind == kinds.end() ? climb_ladder : kind->second)(given);
  });
}

}  // namespace fuzz
