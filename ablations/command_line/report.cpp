// Commands for what was measured: report, history, verify, merge.
#include "ablations/command_line/command.h"
#include "ablations/commands/commands.h"

#include <memory>

namespace ablations {
namespace {

constexpr const char* group = "Report";

void add_report(CommandLine& line) {
  auto flags = std::make_shared<ReportFlags>();
  Command& command = line.add(
      {.group = group,
       .name = "report",
       .summary = "the page and the charts of a study, or of two side by side; CSV, JSON",
       .about =
           "Draws a study from its stored records: report.html (one file that needs no network), report.md and, in "
           "charts/, every chart that there is data for, as SVG, PNG and Vega-Lite. Beside them rungs.csv, steps.csv, "
           "benchmark.json (the form of Google Benchmark, which its compare.py reads) and report.json, from which all "
           "of it is drawn.\n"
           "Measures nothing, so that a study can be drawn wherever its folder is copied to: every number is computed "
           "again from the records. What lies in a study's folder with/ is shown beside it. Two studies are compared "
           "rung by rung, whatever they were measured on, and the page names what differs. A gate has a page of its "
           "own, gate.html, drawn again from its gate.json.",
       .examples = {{"ladder report study", "Draws the study in the folder study, there."},
                    {"ladder report a100 h200 --out drawn", "Two studies side by side, into the folder drawn."},
                    {"ladder report study --with gate.json --with history.json",
                     "The same page with a gate's verdict and a history."},
                    {"ladder report report.json", "Draws again what another machine has put together."},
                    {"ladder report gates/GATE", "Draws a gate's page again."}}});
  command.heading("Arguments");
  command
      .add_option("study", flags->studies,
                  "one study or two: a folder, NAME.study.json with NAME.records.jsonl; or a report.json, or a gate")
      ->type_name("PATH")
      ->required()
      ->expected(1, 2);
  command.heading("What is shown beside it");
  command
      .add_option("--with", flags->with,
                  "each a gate.json, history.json, noise floor or trace, or the JSON of Google Benchmark; repeatable")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command.add_flag("--published", flags->published, "mark figures that others have published, faintly");
  command.heading("Where the results go");
  add_text(command, "--out", flags->out, "folder to write into (default: the study's; of two: reports/FIRST-SECOND)",
           "FOLDER");
  command.callback([&line, flags] { line.chosen = [flags] { return report(*flags); }; });
}

void add_history(CommandLine& line) {
  auto flags = std::make_shared<HistoryFlags>();
  Command& command = line.add(
      {.group = group,
       .name = "history",
       .summary = "what became of each rung's time over stored studies: jumps and drifts",
       .about = "Puts studies that were made under equal circumstances in a row, rung by rung, and says where the time "
                "changed: at a jump, named with its study and commits, or by a drift of small changes. A jump takes "
                "ten studies, a drift six. Writes nothing unless --out names a folder.",
       .examples = {{"ladder history studies", "Every study in that folder and below."},
                    {"ladder history studies --out drawn", "The same, and history.json with its chart."},
                    {"ladder history studies --fail-on-slowdown",
                     "For a nightly job: exit status 1 where it got slower, 3 where a rung fails."}}});
  command.heading("Arguments");
  add_text(command, "folder", flags->folder, "where studies are kept; every study.json in it and below counts",
           "FOLDER")
      ->required();
  command.heading("What counts as slower");
  add_percent(command, "--min-effect", flags->min_effect, "the least difference that matters (default 2)");
  command.add_flag(
      "--fail-on-slowdown", flags->fail_on_slowdown,
      "exit status 1 where a rung is slower than at its best; else 3 where the newest study lacks its time");
  command.heading("Where the results go");
  auto* out =
      add_text(command, "--out", flags->out, "write history.json and draw history.svg, history.png here", "FOLDER");
  command.add_flag("--json", flags->json, "print the history as JSON")->excludes(out);
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
           "summary, sizes and proofs, and the SHA-256 of each file, and names what differs with both values. Where "
           "nothing does, report.json and the tables beside the study are made again and compared, too. Files that are "
           "not covered, such as pages, pictures and logs, are named. Writes nothing. The exit status is 1 where "
           "something differs.",
       .examples = {{"ladder verify study", "Names each file and field that is not what it should be."}}});
  command.heading("Arguments");
  add_text(command, "study", flags->study, "a study's folder, or NAME.study.json with NAME.records.jsonl", "PATH")
      ->required();
  command.heading("What to print");
  command.add_flag("--json", flags->json, "print the findings as JSON");
  command.callback([&line, flags] { line.chosen = [flags] { return verify(*flags); }; });
}

void add_merge(CommandLine& line) {
  auto flags = std::make_shared<MergeFlags>();
  Command& command = line.add(
      {.group = group,
       .name = "merge",
       .summary = "join the shards of a study that several machines measured",
       .about =
           "Each machine measures a part of the repeats with `ladder ablate --shard i/n`, all of them from the same "
           "flags. This joins the parts to one study in OUT, says which runs are missing, and draws it. Other plans, "
           "programs or texts, and devices of different kinds, are refused.",
       .examples = {{"ladder merge whole shard-1 shard-2", "One study, in the folder whole, of two shards."},
                    {"ladder merge --group-by-device whole shard-1 shard-2", "One study for each kind of device."}}});
  command.heading("Arguments");
  add_text(command, "out", flags->out, "folder of the study; may hold a part already", "FOLDER")->required();
  command.add_option("shards", flags->shards, "folders of ladder ablate --shard")->type_name("FOLDER")->required();
  command.heading("What to join");
  command.add_flag("--group-by-device", flags->group_by_device,
                   "a study for each kind of device, in a folder of OUT (default: refuse different devices)");
  command.callback([&line, flags] { line.chosen = [flags] { return merge(*flags); }; });
}

}  // namespace

void add_reporting_commands(CommandLine& line) {
  add_report(line);
  add_history(line);
  add_verify(line);
  add_merge(line);
}

}  // namespace ablations
