// JSON documents: ladders, plans, records, studies, reports, traces, baselines, noise floors and what a training
// leaves, each followed to where the program shows what it holds.
#include "ablations/plan/ladder_file.h"
#include "ablations/plan/make_plan.h"
#include "ablations/plan/modes.h"
#include "ablations/run/study_folder.h"
#include "ablations/techniques/techniques.h"
#include "files/files.h"
#include "files/json_file.h"
#include "files/printable.h"
#include "files/resources.h"
#include "fuzz/input.h"
#include "fuzz/targets.h"
#include "plots/comparison_text.h"
#include "plots/export.h"
#include "plots/gate_text.h"
#include "plots/history_table.h"
#include "plots/lr_sweep_text.h"
#include "plots/remarks.h"
#include "plots/report_document.h"
#include "plots/study_table.h"
#include "plots/to_loss_text.h"
#include "plots/training_summary.h"
#include "study/analysis.h"
#include "study/archive/history_points.h"
#include "study/archive/seal.h"
#include "study/gate/baseline_file.h"
#include "study/gate/compare.h"
#include "study/trace/explain.h"
#include "study/training/quality.h"
#include "study/training/rate_verdict.h"
#include "study/training/training_log.h"
#include "tests/harness/machines.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <stdexcept>

namespace fuzz {
namespace {

namespace fs = std::filesystem;
using files::Json;
using results::Plan;

void require(bool good, const std::string& what) {
  if (!good) throw std::logic_error(what);
}

// Lines of text, each of which a terminal shows as it stands. Control characters are also looked for byte by byte: what
// printable() itself should let through, it would not tell.
void check_shown(const std::string& text) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    const bool controls = std::ranges::any_of(line, [](unsigned char c) { return c < 0x20 || c == 0x7f; }) ||
                          std::ranges::adjacent_find(line, [](unsigned char a, unsigned char b) {
                            return a == 0xc2 && b < 0xa0;  // U+0080 to U+009F
                          }) != line.end();
    if (controls || files::printable(line) != line) {
      throw std::logic_error("a table holds what a terminal acts on: " +
                             Json(line).dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace));
    }
    begin = end + 1;
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

// As `ladder report` shows it.
void check_report_shown(const results::Report& report) {
  for (const auto& entry : report.studies) check_shown(plots::study_table(entry.study));
  for (std::string csv : {plots::rungs_csv(report), plots::steps_csv(report)}) {
    std::erase(csv, '\r');
    check_shown(csv);
  }
  check_shown(files::ascii_text(plots::benchmark_json(report)));
  const Json written = Json::parse(results::json_of(plots::with_said(report)).dump());
  require(results::json_of(results::value_from<results::Report>(written, "the report")) == written,
          "a report changes when it is written");
}

}  // namespace

// What a file compared with others may be: a baseline or a record.
bool read_baseline(std::string_view bytes) {
  static const MemoryFile file;
  static const study::Side other = study::read_side(fs::path(FUZZ_SEEDS) / "baseline" / "valid.json");
  file.write(bytes);
  return taken([] {
    const study::Side side = study::read_side(file.path());
    for (const auto& [base, head] : {std::pair(&side, &other), std::pair(&other, &side), std::pair(&side, &side)}) {
      const results::Comparison comparison = study::compare_sides(*base, *head, {.force = true});
      const Json written = Json::parse(results::json_of(comparison).dump());
      require(results::json_of(results::value_from<results::Comparison>(written, "the comparison")) == written,
              "a comparison changes when it is read");
      check_shown(plots::comparison_table(comparison));
      check_shown(plots::comparison_markdown(comparison));
    }
  });
}

bool read_ladder(std::string_view bytes) {
  static const MemoryFile file;
  file.write(bytes);
  return taken([] {
    const results::Ladder ladder = ablations::load_ladder(file.path());
    (void)ablations::climb(ladder, machines::cpu);
    const auto rungs = ablations::climb(ladder, machines::hopper);
    (void)ablations::interleave(rungs, 2, 1);
    for (const auto mode : {results::Mode::leave_one_out, results::Mode::one_at_a_time}) {
      (void)taken([&] { (void)ablations::rungs_of(ladder, {.mode = mode}, ladder.workload, machines::hopper); });
    }
  });
}

bool read_noise(std::string_view bytes) {
  return taken([&] {
    const auto noise = results::value_from<results::Noise>(files::parse_json(bytes, "file"), "file");
    for (const int64_t pairs : {1, 8, 1000}) (void)study::floor_at(noise, pairs);
    check_shown(plots::noise_table(noise));
  });
}

bool read_plan(std::string_view bytes) {
  static const Folder folder;
  static const std::string record = seed("record/valid.json").dump();
  return taken([&] {
    const Plan plan = results::value_from<results::Plan>(files::parse_json(bytes, "file"), "file");
    const Json again = results::json_of(plan);
    require(results::json_of(results::value_from<results::Plan>(again, "again")) == again,
            "a plan changes when it is copied");
    folder.analyse(plan, record);
  });
}

bool read_record(std::string_view bytes) {
  static const Folder folder;
  static const Plan plan = results::value_from<results::Plan>(seed("plan/valid.json"), "plan");
  return taken([&] { folder.analyse(plan, bytes); });
}

bool read_report(std::string_view bytes) {
  static const MemoryFile file;
  file.write(bytes);
  return taken([] { check_report_shown(results::read_document<results::Report>(file.path())); });
}

// As a report holds it, and as one of a history.
bool read_study(std::string_view bytes) {
  static const StoredStudy folder;
  static const Json around = seed("report/valid.json");
  return taken([&] {
    const Json given = files::parse_json(bytes, "file");
    const Json written = results::json_of(results::value_from<results::Study>(given, "file"));
    require(results::json_of(results::value_from<results::Study>(written, "again")) == written,
            "a study changes when it is copied");
    Json report = around;
    report["studies"][0].update({{"study", given}, {"runs", Json::array()}, {"losses", Json::array()}});
    check_report_shown(results::value_from<results::Report>(report, "the report"));
    folder.study.write(bytes);
    (void)taken([&] { check_shown(plots::history_table(study::history_of(folder.path))); });
  });
}

bool read_trace(std::string_view bytes) {
  using results::TraceDocument;
  static const auto other = results::value_from<TraceDocument>(seed("trace/valid.json"), "trace");
  return taken([&] {
    const auto trace = results::value_from<TraceDocument>(files::parse_json(bytes, "file"), "file");
    const Json again = results::json_of(trace);
    require(results::json_of(results::value_from<TraceDocument>(again, "again")) == again,
            "a trace changes when it is copied");
    check_shown(ablations::trace_table(trace));
    for (const auto& [before, after] : {std::pair(other, trace), std::pair(trace, other), std::pair(trace, trace)}) {
      (void)taken(
          [&, &a = before, &b = after] { check_shown(ablations::explanation_table(ablations::explain(a, b))); });
    }
  });
}

namespace {

// A document that says the same when it is written again.
template <class T>
T same_again(std::string_view bytes) {
  const auto read = results::value_from<T>(files::parse_json(bytes, "file"), "file");
  const Json written = results::json_of(read);
  require(results::json_of(results::value_from<T>(Json::parse(written.dump()), "again")) == written,
          "it changes when it is copied");
  return read;
}

}  // namespace

bool read_checkpoint(std::string_view bytes) {
  return taken([&] { (void)same_again<results::Checkpoint>(bytes); });
}

// As `ladder report` draws it again.
bool read_lr_sweep(std::string_view bytes) {
  return taken([&] {
    const auto sweep = plots::with_said(ablations::with_verdicts(same_again<results::LearningRateSweep>(bytes)));
    (void)results::value_from<results::LearningRateSweep>(Json::parse(results::json_of(sweep).dump()), "the sweep");
    check_shown(plots::lr_sweep_table(sweep));
  });
}

bool read_to_loss(std::string_view bytes) {
  return taken([&] {
    const auto study = plots::with_said(ablations::with_verdicts(same_again<results::TimeToLoss>(bytes)));
    (void)results::value_from<results::TimeToLoss>(Json::parse(results::json_of(study).dump()), "the study");
    check_shown(plots::to_loss_table(study));
  });
}

// Against another one, as where a checkpoint is of another training.
bool read_training(std::string_view bytes) {
  static const auto other = results::value_from<results::Training>(seed("training/valid.json"), "training");
  return taken([&] {
    const auto training = same_again<results::Training>(bytes);
    for (const std::string& line : results::differences(training.settings, other.settings)) {
      check_shown(files::printable(line));
    }
  });
}

// As `ladder report` draws it again.
bool read_training_report(std::string_view bytes) {
  return taken([&] { check_shown(plots::training_summary(same_again<results::TrainingReport>(bytes))); });
}

// As the log of a training that goes on: with its table, and on a terminal.
bool read_training_step(std::string_view bytes) {
  static const files::TemporaryFolder folder("ladder-fuzz-training");
  return taken([&] {
    const auto step = same_again<results::TrainingStep>(bytes);
    check_shown(ablations::step_line(step, 100, 7));
    const ablations::TrainingLog log(folder.path(), {step});
    require(ablations::logged_steps(folder.path()).size() == 1, "a step is lost in the log");
  });
}

const std::map<std::string, Target>& targets() {
  static const std::map<std::string, Target> all{{"baseline", read_baseline},
                                                 {"checkpoint", read_checkpoint},
                                                 {"ladder", read_ladder},
                                                 {"lr_sweep", read_lr_sweep},
                                                 {"noise", read_noise},
                                                 {"plan", read_plan},
                                                 {"record", read_record},
                                                 {"report", read_report},
                                                 {"safetensors", read_safetensors},
                                                 {"study", read_study},
                                                 {"text", encode_text},
                                                 {"lines", read_lines},
                                                 {"to_loss", read_to_loss},
                                                 {"tokens", read_tokens},
                                                 {"trace", read_trace},
                                                 {"training", read_training},
                                                 {"training_report", read_training_report},
                                                 {"training_step", read_training_step},
                                                 {"vocabulary", read_vocabulary}};
  return all;
}

const std::vector<std::string>& words_of(const std::string& target) {
  static const auto all = [] {
    std::map<std::string, std::vector<std::string>> words;
    for (const char* kind : {"baseline", "checkpoint", "ladder", "lr_sweep", "noise", "plan", "record", "report",
                             "study", "to_loss", "trace", "training", "training_report", "training_step"}) {
      const fs::path file = files::resource_root() / "results" / "schemas" / fmt::format("{}.v1.json", kind);
      std::set<std::string> found;
      const Json schema = Json::parse(files::read_file(file)).flatten();
      for (const auto& [pointer, value] : schema.items()) {
        const Json::json_pointer place(pointer);
        if (value.is_string() && pointer.find("/description") == std::string::npos) found.insert(value);
        for (auto at = place; !at.empty(); at = at.parent_pointer()) found.insert(at.back());
      }
      for (const auto& optimization : ablations::optimizations()) found.insert(optimization.name);
      words[kind] = {found.begin(), found.end()};
    }
    return words;
  }();
  static const std::vector<std::string> none;
  const auto found = all.find(target);
  return found == all.end() ? none : found->second;
}

}  // namespace fuzz
