// `ladder export`: puts a study or a gate's verdict where people keep results. plots/export_to.py hands it to that
// place's own library.
#include "cli/command.h"
#include "cli/draw.h"
#include "files/files.h"
#include "files/printable.h"
#include "files/resources.h"
#include "harness/process/process.h"
#include "harness/process/unfit.h"
#include "plots/remarks.h"
#include "plots/report_document.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>

namespace cli {

namespace fs = std::filesystem;

namespace {

constexpr double export_limit_s = 3600;                                                     // charts may go a long way
const std::vector<std::string> export_places{"wandb", "trackio", "mlflow", "tensorboard"};  // as in export_to.py

struct ExportFlags {
  std::string study, to, project, out;
  bool offline = false;
};

void check_flags(const ExportFlags& flags) {
  if (std::ranges::find(export_places, flags.to) == export_places.end()) {
    throw std::invalid_argument(
        fmt::format("--to must be one of {}, got {}", fmt::join(export_places, ", "), files::in_quotes(flags.to)));
  }
  for (const auto& [flag, is_given, place] :
       {std::tuple{"--out", !flags.out.empty(), "tensorboard"}, {"--offline", flags.offline, "wandb"}}) {
    if (is_given && flags.to != place) {
      throw std::invalid_argument(fmt::format("{} is for --to {}, got --to {}", flag, place, flags.to));
    }
  }
}

template <Document T>
void write_to_export(const T& document, const fs::path& file) {
  write_document(file, with_printable_texts(document, files::printable_lines));
}

// Writes the report of a study, or a gate's verdict, into `file`. Returns the folder where that and its charts are.
fs::path make_document(const fs::path& path, const fs::path& file) {
  if (const fs::path gate = document_at(path, "gate.json", GateResult::kind); !gate.empty()) {
    write_to_export(read_document<GateResult>(gate), file);
    return fs::absolute(gate).parent_path();
  }
  if (is_document(path, Report::kind)) {
    const auto report = read_document<Report>(path);
    if (report.studies.size() > 1) {
      throw std::invalid_argument(fmt::format("{}: is of two studies; export each by its folder", path.string()));
    }
    write_to_export(with_said(report), file);
    return fs::absolute(path).parent_path();
  }
  const StudyPlace place(path);
  const Report report = report_document({read_study(place)});
  show_notes(report);
  write_to_export(with_said(report), file);
  return place.folder();
}

int export_to(const ExportFlags& flags) {
  check_flags(flags);
  harness::catch_interrupts();
  const files::TemporaryFolder temporary("ladder-export");
  const fs::path document = temporary.path() / "report.json", log = temporary.path() / "log";
  const fs::path folder = make_document(flags.study, document);
  const std::string project = flags.project.empty() ? last_part(folder) : flags.project;
  std::vector<std::string> argv = users_python();
  argv.insert(argv.end(), {(files::resource_root() / "plots" / "export_to.py").string(), document.string(), flags.to,
                           "--project=" + project, "--charts=" + (folder / "charts").string()});
  if (!flags.out.empty()) argv.push_back("--out=" + flags.out);
  if (flags.offline) argv.emplace_back("--offline");
  const auto child = harness::run_child({.argv = argv, .log = log, .limit_s = export_limit_s});
  std::string said = files::printable_lines(files::read_file(log));
  said.resize(said.find_last_not_of('\n') + 1);
  if (child.end == harness::ChildResult::End::interrupted) return 130;
  if (child.end != harness::ChildResult::End::exited || said.empty()) {
    throw std::runtime_error(fmt::format("{} {}; the export is not whole (LADDER_PYTHON names another Python)",
                                         argv.front(), child.describe(export_limit_s)));
  }
  if (child.code == 2) throw std::invalid_argument(said);
  if (child.code == 3) throw harness::Unfit(said);
  if (child.code != 0) throw std::runtime_error(said);
  fmt::print("{}\n", said);
  return 0;
}

}  // namespace

void add_export(CommandLine& line) {
  Command& command = line.add(
      {.name = "export",
       .about =
           "Puts a study, or a gate's verdict, where people keep results, by that place's own library. Each rung is a "
           "run: recipe or command, device, versions and plan; figures with their intervals, called as in rungs.csv; "
           "time and loss of every step of every repeat. One more run has the table of all rungs, the remarks, and the "
           "charts that `ladder report` drew.\n"
           "A rung that failed, is void or not usable has its status and reason in place of figures. Its steps stand "
           "under that status: `void/loss/repeat_1`.\n"
           "Measures nothing, and writes nothing into the study's folder. A second export makes the runs a second "
           "time.\n"
           "The library is that of your Python: `LADDER_PYTHON` names it. Else it is `python3` on PATH or, of an "
           "installed ladder, the one beside it. Without the library the exit status is 3. Its own login and variables "
           "count, such as `WANDB_MODE` and `MLFLOW_TRACKING_URI`.",
       .examples = {{"ladder export study --to wandb", "Into the project study of Weights & Biases."},
                    {"ladder export study --to wandb --offline", "Into the folder wandb, for `wandb sync`."},
                    {"ladder export study --to trackio --project speed", "Into the project speed of trackio, here."},
                    {"ladder export study --to mlflow", "Into the experiment study, at `MLFLOW_TRACKING_URI`."},
                    {"ladder export study --to tensorboard",
                     "Into the folder runs/study, for `tensorboard --logdir runs/study`."}},
       .common = {"--to", "--project", "--offline", "--out"}});
  auto& flags = command.runs<ExportFlags>(export_to);
  command.heading("Arguments");
  add_text(command, "study", flags.study, "a study or a gate, by its folder; or a report.json", "PATH")->required();
  command.heading("Where it goes");
  add_choice(command, "--to", flags.to, export_places, "", "PLACE")->required();
  add_text(command, "--project", flags.project, "project or experiment there (default: the folder's name)", "NAME");
  command.add_flag("--offline", flags.offline, "wandb: keep it in files, as with `WANDB_MODE=offline`");
  add_output(command, "--out", flags.out, "tensorboard: a new folder to write into (default: runs/PROJECT)", "FOLDER");
}

}  // namespace cli
