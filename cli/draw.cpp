#include "cli/draw.h"

#include "ablations/run/study_folder.h"
#include "files/files.h"
#include "files/printable.h"
#include "files/resources.h"
#include "harness/process/process.h"
#include "plots/export.h"
#include "plots/gate_text.h"
#include "plots/remarks.h"
#include "plots/report_document.h"
#include "plots/study_markdown.h"
#include "plots/study_table.h"
#include "study/archive/seal.h"
#include "text/style.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace cli {

namespace fs = std::filesystem;
using files::printable;

std::string on_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr || name.find('/') != std::string::npos ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path program = fs::path(folder.empty() ? "." : folder) / name;
    if (fs::is_regular_file(program) && ::access(program.c_str(), X_OK) == 0) return program.string();
  }
  return name;
}

namespace {

constexpr double drawing_limit_s = 300;

struct Ran {
  harness::ChildResult child;
  std::string output;

  [[nodiscard]] int exit_status() const { return child.end == harness::ChildResult::End::exited ? child.code : 1; }
};

// A script of plots/. `log` stays where it failed.
Ran run_script(const char* script, const fs::path& document, const fs::path& out, const fs::path& log) {
  std::vector<std::string> argv = python();
  argv.insert(argv.end(), {(files::resource_root() / "plots" / script).string(), document.string(), out.string()});
  const auto child = harness::run_child({.argv = std::move(argv), .log = log, .limit_s = drawing_limit_s});
  const std::string output = files::printable_lines(files::read_file(log, size_t{1} << 20));
  if (child.succeeded()) fs::remove(log);
  return {child, output};
}

// What plots/ draws has no control characters: its pages and drawings would be unreadable.
template <Document T>
void write_to_draw(const T& document, const fs::path& file) {
  write_document(file, with_printable_texts(document, files::printable_lines));
}

}  // namespace

bool is_document(const fs::path& path, const char* kind) {
  if (!fs::is_regular_file(path) || path.extension() != ".json" || path.filename() == "study.json") return false;
  return files::kind_of(files::read_any_json(path)) == kind;
}

fs::path document_at(const fs::path& path, const char* name, const char* kind) {
  if (fs::is_directory(path)) return fs::exists(path / name) ? path / name : fs::path();
  return is_document(path, kind) ? path : fs::path();
}

StudyFiles read_study(const StudyPlace& place) {
  const Plan plan = open_study(place.folder());
  if (plan.gate) {
    throw std::invalid_argument(
        fmt::format("{}: is a gate that has no verdict yet; resume it with: ladder gate --resume --out {}",
                    place.folder().string(), place.folder().string()));
  }
  StudyFiles study = computed_study(plan, place.folder());
  study.source = place.name();
  if (has_edited_records(study.edits, place.folder())) {
    study.study.warnings.emplace_back(
        "records are not what they were when the study was made; `ladder verify` says which");
  }
  return study;
}

std::vector<std::string> python() {
  const char* named = std::getenv("LADDER_PYTHON");
  if (named != nullptr && *named != 0) return {on_path(named)};
  if (const fs::path prefix = files::installed_prefix(); !prefix.empty()) {
    const fs::path own = prefix / "bin" / "python3";
    return {fs::exists(own) ? own.string() : on_path("python3")};
  }
  return {LADDER_PYTHON, "-E", "-s"};
}

std::vector<std::string> users_python() {
  const std::vector<std::string> own = python();
  const bool is_of_build = own.size() > 1;  // its flags shut the user's packages out
  return is_of_build ? std::vector{on_path("python3")} : own;
}

Drawn draw(std::string_view what, const fs::path& document, const fs::path& out) {
  const Ran ran = run_script("render.py", document, out, out / "drawing.log");
  if (ran.child.succeeded()) return {0, ran.output};
  fmt::print(stderr, "{}ladder: the {} was not drawn: {} {} (LADDER_PYTHON names another Python)\n", ran.output, what,
             python().front(), ran.child.describe(drawing_limit_s));
  return {ran.exit_status(), ""};
}

void show_notes(const Report& report) {
  std::fflush(stdout);
  for (const std::string& note : report.notes) fmt::print(stderr, "note: {}\n", printable(note));
}

bool any_failed(const Study& study) {
  return std::ranges::any_of(study.rungs, [](const StudyRung& rung) {
    return rung.status == RungStatus::failed || rung.status == RungStatus::unproven ||
           rung.status == RungStatus::voided;
  });
}

Printed printed_as(bool json, bool markdown, bool verbose) {
  return json ? Printed::json : markdown ? Printed::markdown : verbose ? Printed::verbose : Printed::table;
}

int show_study(const Study& study, Printed as) {
  if (as == Printed::json) {
    fmt::print("{}\n", files::ascii_text(json_of(study)));
  } else if (as == Printed::markdown) {
    fmt::print("{}", study_markdown(study));
  } else {
    fmt::print("{}", study_table(study, standard_output(), as == Printed::verbose));
  }
  return any_failed(study) || !study.found.empty() ? 1 : why_unusable(study) ? 3 : 0;
}

Drawn show_gate(const GateResult& result, const fs::path& out, Printed as) {
  Drawn drawn;
  try {
    write_to_draw(result, out / "gate.json");
    drawn = draw("page", out / "gate.json", out);
  } catch (const std::exception& error) {  // the verdict still counts
    fmt::print(stderr, "ladder: the page was not drawn: {}\n", printable(error.what()));
  }
  if (as == Printed::json) {
    fmt::print("{}\n", files::ascii_text(json_of(result)));
  } else if (as == Printed::markdown) {
    fmt::print("{}", gate_markdown(result));
  } else {
    fmt::print("{}{}", gate_table(result, standard_output()), drawn.said);
  }
  std::fflush(stdout);
  return drawn;
}

std::vector<std::string> files_of_training_page(const std::string& document) {
  return {document, "report.html", "report.md", "charts", "drawing.log"};
}

void remove_drawn_gate(const fs::path& out) {
  fs::remove(out / "gate.html");
  for (const char* chart : {"gate", "pairs"}) {  // OF_GATE in plots/charts/__init__.py
    for (const char* ending : {".svg", ".png", ".vl.json"}) {
      fs::remove(out / "charts" / (std::string(chart) + ending));
    }
  }
}

std::vector<std::string> files_of_report() {
  std::vector<std::string> names{"report.json", "report.html", "report.md", "charts", "drawing.log"};
  for (const Export& one : exports) names.emplace_back(one.file);
  return names;
}

Drawn draw_report(const Report& report, const fs::path& out, const std::vector<std::string>& lines) {
  fs::create_directories(out);
  Report said = with_said(report);
  for (size_t i = 0; i < lines.size(); ++i) said.studies.at(i).said.lines.push_back(lines[i]);
  write_to_draw(said, out / "report.json");
  const std::vector<std::string> names = files_of_report();
  remove_unfinished_files(out, {names.begin(), names.end()});
  for (const Export& one : exports) files::write_file(out / one.file, one.text(report));
  return draw("report", out / "report.json", out);
}

Drawn try_draw(const char* failure, const std::function<Drawn()>& drawing) {
  try {
    return drawing();
  } catch (const std::exception& error) {
    fmt::print(stderr, "ladder: {}: {}\n", failure, printable(error.what()));
    return {};
  }
}

Drawn try_draw_report(const StudyFiles& study, const fs::path& out) {
  return try_draw("the report was not made", [&] {
    const Report report = report_document({study});
    show_notes(report);
    return draw_report(report, out);
  });
}

}  // namespace cli
