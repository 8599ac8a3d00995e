// Commands that look at what was measured: report, history, verify.
#include "ablations/command_line/command.h"
#include "ablations/commands.h"

#include <memory>

namespace ablations {
namespace {

constexpr const char* group = "Look";

void add_report(CommandLine& line) {
  auto flags = std::make_shared<ReportFlags>();
  Command& command = line.add(
      {.group = group,
       .name = "report",
       .summary = "draw a study again: report.md, ladder.svg, ladder.png",
       .about =
           "Computes a study again from its records, prints its table, and draws report and charts into its folder, "
           "or into another. Measures nothing, so that a study can be drawn where its folder is copied to.",
       .examples = {{"ladder report study", "Draws the study in the folder study, there."},
                    {"ladder report study --out drawn", "Draws it elsewhere."}}});
  command.heading("Arguments");
  add_text(command, "study", flags->study, "folder of a study", "FOLDER")->required();
  command.heading("Where the results go");
  add_text(command, "--out", flags->out, "folder to draw into (default: the study's)", "FOLDER");
  command.callback([&line, flags] { line.chosen = [flags] { return report(*flags); }; });
}

void add_history(CommandLine& line) {
  auto flags = std::make_shared<HistoryFlags>();
  Command& command = line.add(
      {.group = group,
       .name = "history",
       .summary = "what became of each rung's time over stored studies: steps and drifts",
       .about = "Puts studies that were made under equal circumstances in a row, rung by rung, and says where the time "
                "changed: at a step, named with its study and commits, or by a drift of small steps. A step takes ten "
                "studies, a drift six. Writes nothing unless --out names a folder.",
       .examples = {
           {"ladder history studies", "Every study in that folder and below."},
           {"ladder history studies --out drawn", "The same, and history.json with its chart."},
           {"ladder history studies --fail-on-slowdown", "For a nightly job: exit status 1 where it got slower."}}});
  command.heading("Arguments");
  add_text(command, "folder", flags->folder, "where studies are kept; every study.json in it and below counts",
           "FOLDER")
      ->required();
  command.heading("Where the results go");
  auto* out =
      add_text(command, "--out", flags->out, "write history.json and draw history.svg, history.png here", "FOLDER");
  command.add_flag("--json", flags->json, "print the history as JSON")->excludes(out);
  command.add_flag("--fail-on-slowdown", flags->fail_on_slowdown,
                   "exit status 1 where a rung is found to be slower than at its best");
  command.callback([&line, flags] { line.chosen = [flags] { return history(*flags); }; });
}

void add_verify(CommandLine& line) {
  auto flags = std::make_shared<VerifyFlags>();
  Command& command = line.add(
      {.group = group,
       .name = "verify",
       .summary = "compute a study again from its records, and every hash",
       .about =
           "Is the study what its records say? Computes every number and text of study.json again, each record's "
           "summary, sizes and proofs, and the SHA-256 of each file, and names what differs with both values. Writes "
           "nothing. The exit status is 1 where something differs, 3 for a study from before there were hashes.",
       .examples = {{"ladder verify study", "Names each file and field that is not what it should be."}}});
  command.heading("Arguments");
  add_text(command, "study", flags->study, "folder of a study", "FOLDER")->required();
  command.heading("What to print");
  command.add_flag("--json", flags->json, "print the findings as JSON");
  command.callback([&line, flags] { line.chosen = [flags] { return verify(*flags); }; });
}

}  // namespace

void add_looking_commands(CommandLine& line) {
  add_report(line);
  add_history(line);
  add_verify(line);
}

}  // namespace ablations
