// `ladder history`: the times of all studies in a folder, and what changed.
#include "cli/command.h"
#include "cli/draw.h"
#include "cli/place.h"
#include "files/files.h"
#include "files/printable.h"
#include "harness/stats/verdict.h"
#include "plots/history_table.h"
#include "plots/report_document.h"
#include "study/archive/history_points.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace cli {

namespace fs = std::filesystem;
using files::printable;

namespace {

struct HistoryFlags {
  std::string folder, out;
  double min_effect = harness::usual_min_effect;
  bool json = false, fail_on_slowdown = false;
};

int history(const HistoryFlags& flags) {
  const fs::path out = files::named_folder(flags.out);
  if (!out.empty()) {
    check_draws_over_own(out, "history.json", "history",
                         {"history.json", "history.svg", "history.png", "history.vl.json"});
  }
  const History history = history_of(flags.folder, flags.min_effect);
  for (const auto& [file, reason] : history.skipped)
    fmt::print(stderr, "skipped: {}: {}\n", printable(file), printable(reason));
  std::string said;
  if (!out.empty()) {
    try {
      fs::create_directories(out);
      write_document(out / "history.json", with_printable_texts(history, files::printable_lines));
      said = draw("history", out / "history.json", out).said;  // what cannot be drawn changes no exit status
    } catch (const std::system_error& error) {
      if (!flags.fail_on_slowdown) throw;  // else the verdict still counts
      fmt::print(stderr, "ladder: the history was not written: {}\n", printable(error.what()));
    }
  }
  if (flags.json) {
    fmt::print("{}\n", files::ascii_text(json_of(history)));
  } else if (history.studies == 1) {
    fmt::print("1 study: a history begins with two; six show a drift, ten a jump\n");
  } else {
    fmt::print("{}", history_table(history, standard_output()));
  }
  fmt::print("{}", said);
  // A rung that fails tonight has no time that could be judged: exit status 3.
  return !flags.fail_on_slowdown ? 0 : history.slower != 0 ? 1 : history.missed != 0 ? 3 : 0;
}

}  // namespace

void add_history(CommandLine& line) {
  Command& command = line.add(
      {.name = "history",
       .about = "Lines up studies made under equal circumstances, rung by rung, and says where the time changed: at a "
                "jump, named with its study and commits, or by a drift of small changes. It takes ten studies to find "
                "a jump and six to find a drift. Writes nothing unless --out names a folder.",
       .examples = {{"ladder history studies", "Every study in that folder and below."},
                    {"ladder history studies --out drawn", "The same, and history.json with its chart."},
                    {"ladder history studies --fail-on-slowdown",
                     "For a nightly job: exit status 1 if a rung got slower, 3 if a rung fails."}}});
  auto& flags = command.runs<HistoryFlags>(history);
  command.heading("Arguments");
  add_text(command, "folder", flags.folder, "folder of studies; every study.json in it and below counts", "FOLDER")
      ->required();
  command.heading("What counts as slower");
  add_min_effect_flag(command, flags.min_effect, "difference");
  command.add_flag(
      "--fail-on-slowdown", flags.fail_on_slowdown,
      "exit status 1 if a rung is slower than at its best; else 3 if the newest study has no time for a rung");
  command.heading("Where the results go");
  add_output(command, "--out", flags.out, "write history.json and draw history.svg, history.png here", "FOLDER");
  command.add_flag("--json", flags.json, "print the history as JSON");
  command.exclude("--json", {"--out"});
}

}  // namespace cli
