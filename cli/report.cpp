// `ladder report`: draws a study, two studies, a gate, a training, a sweep of learning rates, or a study of time to
// loss.
#include "ablations/run/run_setting.h"
#include "ablations/run/study_folder.h"
#include "cli/command.h"
#include "cli/draw.h"
#include "cli/place.h"
#include "files/files.h"
#include "files/printable.h"
#include "plots/comparison_text.h"
#include "plots/export.h"
#include "plots/ledger_text.h"
#include "plots/remarks.h"
#include "plots/report_document.h"
#include "plots/sentences.h"
#include "plots/training_summary.h"
#include "study/archive/seal.h"
#include "study/archive/study_files.h"
#include "study/training/training_log.h"
#include "text/figures.h"
#include "text/style.h"
#include "text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <system_error>

namespace cli {

namespace fs = std::filesystem;
using files::printable;

namespace {

constexpr int64_t most_epochs = 1000000;

struct ReportFlags {
  std::vector<std::string> studies, with;  // files or folders
  std::string out;
  std::optional<int64_t> tokens;  // of an epoch
  int64_t epochs = 1;
  bool verbose = false;
};

// A training's folder, named by itself, its training.json or its log. Empty if the path is none of these.
fs::path training_in(const fs::path& path) {
  if (fs::is_directory(path)) return holds_training(path) ? files::named_folder(path) : fs::path();
  const fs::path folder = fs::absolute(path).parent_path();
  const bool is_its_file = path.filename() == log_file || is_document(path, "training");
  return is_its_file && holds_training(folder) ? folder : fs::path();
}

// Whether the folder has no study.json yet, or one that this version made.
bool may_renew(const fs::path& file) {
  if (!fs::exists(file)) return true;
  try {
    return are_of_one_program(read_document<Study>(file).environment, environment_of_program());
  } catch (const std::invalid_argument&) {
    return false;
  }
}

// Without --out the study's own study.json is made again with its report, unless records were edited.
void renew(const StudyFiles& study, const StudyPlace& place, bool draws_there) {
  const fs::path& folder = place.folder();
  for (const Finding& edit : study.edits) {
    fmt::print(stderr, "note: {} has changed since the study was made: {}, expected {}\n", printable(edit.file),
               printable(edit.stored), printable(edit.expected));
  }
  const std::string file = printable((folder / study_file).string());
  if (has_edited_records(study.edits, folder)) {
    fmt::print(stderr, "note: {} is left as it is; if the records are right, delete it and draw the report again\n",
               file);
  } else if (draws_there && !may_renew(folder / study_file)) {
    fmt::print(stderr, "note: {} was made by another version and is left as it is; the report is computed anew\n",
               file);
  } else if (draws_there) {
    try {
      write_document(folder / study_file, study.study);
    } catch (const std::system_error& error) {
      throw std::invalid_argument(fmt::format("{}; --out names another folder to draw into", error.what()));
    }
  }
}

// Where a document is drawn that cannot be combined with others.
fs::path place_of_drawing(const fs::path& file, const ReportFlags& flags, const char* what, const char* instead) {
  if (flags.studies.size() > 1 || !flags.with.empty()) {
    throw std::invalid_argument(fmt::format("{}: a {} is drawn as it is, by itself; {}", file.string(), what, instead));
  }
  return flags.out.empty() ? fs::absolute(file).parent_path() : files::named_folder(flags.out);
}

// A report may replace an earlier one or go into a study's folder. It must not overwrite what it shows.
void check_report_goes_to(const fs::path& out, const std::vector<std::string>& with) {
  check_folder(out);
  if (!files::is_of_kind(out / "plan.json", "plan")) {
    check_draws_over_own(out, "report.json", "report", files_of_report());
  }
  check_has_no_links(out, {"charts"});
  std::vector<Input> inputs;
  inputs.reserve(with.size());
  for (const std::string& file : with) inputs.push_back({"--with", file});
  for (const std::string& name : files_of_report()) check_not_read("--out", out / name, inputs);
}

// Throws if a document would be drawn into another study's or gate's folder.
void check_is_no_studys(const fs::path& out) {
  if (!files::is_of_kind(out / "plan.json", "plan")) return;
  throw std::invalid_argument(
      fmt::format("{}: is a study's or a gate's folder; name another one with --out", out.string()));
}

bool are_same(const fs::path& folder, const fs::path& other) {
  return fs::exists(folder) && fs::exists(other) && fs::equivalent(folder, other);
}

int draw_gate(const fs::path& file, const ReportFlags& flags) {
  const fs::path out =
      place_of_drawing(file, flags, "gate", "ladder report STUDY --with GATE.json shows it beside a study");
  const auto result = read_document<GateResult>(file);
  if (!are_same(out, fs::absolute(file).parent_path()) || file.filename() != "gate.json") {
    check_is_no_studys(out);
    check_draws_over_own(out, "gate.json", "gate", files_of_gate);
    fs::create_directories(out);
    write_document(out / "gate.json", result);
  }
  check_has_no_links(out, {"charts"});
  const Drawn drawn = show_gate(result, out);
  return drawn.exit_status != 0 ? drawn.exit_status : result.exit_status;
}

// Beside the ledger in a folder of its name.
int draw_ledger(const fs::path& file, const ReportFlags& flags) {
  fs::path out = place_of_drawing(file, flags, "ledger", "name it alone");
  if (flags.out.empty()) out /= file.stem().string() + "-report";
  check_is_no_studys(out);
  check_draws_over_own(out, "ledger.json", "ledger", files_of_training_page("ledger.json"));
  check_has_no_links(out, {"charts"});
  auto ledger = read_document<Ledger>(file);
  ledger.said = said_of(ledger);
  const Drawn drawn = draw_document(ledger, out, "ledger.json");
  fmt::print("{}{}", ledger_table(ledger, standard_output()), drawn.said);
  return drawn.exit_status;
}

int show_training(const TrainingReport& report, const fs::path& out) {
  check_has_no_links(out, {"charts"});
  const Drawn drawn = draw_document(report, out, "report.json");
  fmt::print("{}{}", training_summary(report, standard_output()), drawn.said);
  return drawn.exit_status;
}

int draw_training(const fs::path& folder, const ReportFlags& flags) {
  const fs::path out = place_of_drawing(folder / log_file, flags, "training", "name it alone");
  const Training training = open_training(folder);
  const std::vector<TrainingStep> steps = logged_steps(folder);
  if (steps.empty()) throw std::invalid_argument(fmt::format("{}: has no step yet", (folder / log_file).string()));
  if (!are_same(out, folder)) {
    check_is_no_studys(out);
    check_draws_over_own(out, "report.json", "training_report", files_of_training_page("report.json"));
  }
  return show_training(training_report(fs::weakly_canonical(folder).filename().string(), training, steps), out);
}

// Where a document of a training, of a sweep or of time to loss is drawn.
fs::path place_to_redraw(const fs::path& file, const ReportFlags& flags, const char* what, const char* name,
                         const char* kind) {
  fs::path out = place_of_drawing(file, flags, what, "name it alone");
  check_is_no_studys(out);
  check_draws_over_own(out, name, kind, files_of_training_page(name));
  check_has_no_links(out, {"charts"});
  return out;
}

int redraw_training(const fs::path& file, const ReportFlags& flags) {
  const auto report = read_document<TrainingReport>(file);
  return show_training(report, place_to_redraw(file, flags, "training", "report.json", TrainingReport::kind));
}

// One study's table, or the comparison of two. Exit status 1 where a rung failed, was not proven or is void.
int show_report(const Report& report, const Drawn& drawn, bool verbose) {
  int status = 0;
  if (report.studies.size() == 1) {
    status = show_study(report.studies[0].study, printed_as(false, false, verbose));
  } else {
    if (report.comparison) fmt::print("{}", comparison_table(*report.comparison, standard_output(), sides_of_studies));
    fmt::print("{}", said_text(with_printable_texts(said_of(report)), standard_output()));
    const auto has_failed = [](const ReportedStudy& entry) { return any_failed(entry.study); };
    status = std::ranges::any_of(report.studies, has_failed) ? 1 : 0;
  }
  fmt::print("{}", drawn.said);
  return drawn.exit_status != 0 ? drawn.exit_status : status;
}

// How long such a training takes on the fastest rung, and on the first: steps only.
std::string hours_of(const Study& study, const ReportFlags& flags) {
  const char* const none = "Hours for --tokens: no rung is compared with the first by its tokens per second";
  if (study.metric || why_unusable(study)) return none;
  const std::optional<Lead> lead = lead_of(study);
  if (!lead || !lead->rung->tokens_per_s || !lead->reference->tokens_per_s) return none;
  const double tokens = static_cast<double>(*flags.tokens) * static_cast<double>(flags.epochs);
  const auto hours = [&](const StudyRung& rung) { return digits3(tokens / rung.tokens_per_s->median / 3600); };
  return fmt::format("{} of {} tokens: {} hours by {}, {} by {}", number_of(flags.epochs, "epoch"),
                     plain(static_cast<double>(*flags.tokens)), hours(*lead->rung), in_quotes(lead->rung->title),
                     hours(*lead->reference), in_quotes(lead->reference->title));
}

int draw_and_show(const Report& report, const fs::path& out, const ReportFlags& flags) {
  std::vector<std::string> hours;
  if (flags.tokens) {
    for (const ReportedStudy& one : report.studies) hours.push_back(hours_of(one.study, flags));
  }
  const Drawn drawn = draw_report(report, out, hours);
  show_notes(report);
  const int status = show_report(report, drawn, flags.verbose);
  for (const std::string& line : hours) fmt::print("{}\n", ascii_words(printable(line)));
  return status;
}

int draw_again(const fs::path& file, const ReportFlags& flags) {
  const fs::path out = place_of_drawing(file, flags, "report", "name the studies to put something beside it");
  const auto report = read_document<Report>(file);
  check_report_goes_to(out, {});
  return draw_and_show(report, out, flags);
}

int report(const ReportFlags& flags) {
  if (flags.studies.size() > 2) {
    throw std::invalid_argument(
        fmt::format("ladder report: must be given one or two studies, got {}", flags.studies.size()));
  }
  const std::vector<fs::path> paths(flags.studies.begin(), flags.studies.end());
  for (const fs::path& path : paths) {
    if (is_document(path, "report")) return draw_again(path, flags);
    if (is_document(path, Ledger::kind)) return draw_ledger(path, flags);
    if (const fs::path gate = document_at(path, "gate.json", "gate"); !gate.empty()) return draw_gate(gate, flags);
    if (is_document(path, TrainingReport::kind)) return redraw_training(path, flags);
    if (const fs::path training = training_in(path); !training.empty()) return draw_training(training, flags);
  }
  if (paths.size() == 2 && fs::exists(paths[0]) && fs::exists(paths[1]) && fs::equivalent(paths[0], paths[1])) {
    throw std::invalid_argument(fmt::format("{}: given twice; name two different studies", paths[0].string()));
  }
  const std::vector<StudyPlace> places(paths.begin(), paths.end());
  std::vector<StudyFiles> studies;
  studies.reserve(places.size());
  for (const StudyPlace& place : places) studies.push_back(read_study(place));
  const bool alone = paths.size() == 1;
  if (!alone && studies[0].source == studies[1].source) studies[1].source += " (2)";
  const auto own_folder = [](const fs::path& path) {
    return fs::is_directory(path) ? path : fs::absolute(path).parent_path();
  };
  const fs::path out = !flags.out.empty() ? files::named_folder(flags.out)
                       : alone            ? files::named_folder(own_folder(paths[0]))
                               : fs::path("reports") / fmt::format("{}-{}", studies[0].source, studies[1].source);
  check_report_goes_to(out, flags.with);
  const Report document = report_document(studies, {flags.with.begin(), flags.with.end()});
  if (alone) renew(studies[0], places[0], are_same(out, places[0].folder()));
  return draw_and_show(document, out, flags);
}

// "rungs.csv (a table), steps.csv (another)".
std::string names_of_exports() {
  std::string names;
  for (const Export& one : exports) names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", one.file, one.what);
  return names;
}

}  // namespace

void add_report(CommandLine& line) {
  Command& command = line.add(
      {.name = "report",
       .about =
           std::string(
               "Draws a study from its stored records: report.html (one file that needs no network), report.md and, in "
               "charts/, each chart that has data, as SVG, PNG and Vega-Lite. It is drawn from report.json. "
               "Beside it are ") +
           names_of_exports() +
           ".\n"
           "Measures nothing: every number is computed again from the records, so a study can be drawn wherever its "
           "folder is copied. Documents in a study's folder with/ are shown beside it. Two studies are compared rung "
           "by rung, also if they were measured on different machines, and the page names what differs. A gate has a "
           "page of its own, gate.html, which is drawn again from its gate.json.\n"
           "Of a training's folder (`ladder train --out`) it draws loss, validation loss, learning rate, norm of the "
           "gradients and tokens per second, also while the training runs; report.json then has the points of the "
           "charts.",
       .examples = {{"ladder report study", "Draws the study in the folder study, there."},
                    {"ladder report a100 h200 --out drawn", "Two studies side by side, into the folder drawn."},
                    {"ladder report study --with gate.json --with history.json",
                     "The same page with a gate's verdict and a history."},
                    {"ladder report study --tokens 1000000000 --epochs 3", "Also the hours of a training so long."},
                    {"ladder report report.json", "Draws a report again that another machine wrote."},
                    {"ladder report gates/GATE", "Draws a gate's page again."},
                    {"ladder report training", "Draws the training in the folder training."},
                    {"ladder report night.json", "Draws a night of experiments (ladder gate --ledger)."}},
       .common = {"--with", "--out"}});
  auto& flags = command.runs<ReportFlags>(report);
  command.heading("Arguments");
  command
      .add_option(
          "study", flags.studies,
          "one study or two, by their folders; or a report.json, a gate, a ledger, a training's folder or log.jsonl")
      ->type_name("PATH")
      ->required()
      ->expected(1, 2);
  command.heading("What to show beside it");
  command
      .add_option("--with", flags.with,
                  "each a gate.json, history.json, noise floor or trace, or the JSON of Google Benchmark; repeatable")
      ->type_name("FILE")
      ->allow_extra_args(false);
  add_number(command, "--tokens", flags.tokens,
             "say how many hours so many tokens take, on the fastest rung and on the first", 1,
             INT64_MAX / most_epochs);
  add_number(command, "--epochs", flags.epochs, "of --tokens (default 1)", 1, most_epochs)->needs("--tokens");
  command.add_flag("-v,--verbose", flags.verbose,
                   "also print what changed from rung to rung, and how numbers are computed");
  command.heading("Where the results go");
  add_output(command, "--out", flags.out, "folder to write into (default: the study's; of two: reports/FIRST-SECOND)",
             "FOLDER");
}

}  // namespace cli
