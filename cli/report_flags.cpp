// Commands for what was measured: report, history, verify, merge.
#include "cli/command.h"
#include "cli/commands.h"

#include <memory>

namespace ablations {
namespace {

void add_report(CommandLine& line) {
  auto flags = std::make_shared<ReportFlags>();
  Command& command = line.add(
      {.group = "Report",
       .name = "report",
       .summary = "draw a study, two side by side, or a training",
       .about =
           "Draws a study from its stored records: report.html (one file that needs no network), report.md and, in "
           "charts/, each chart that has data, as SVG, PNG and Vega-Lite. Also writes rungs.csv, steps.csv, "
           "benchmark.json (Google Benchmark's format, which its compare.py reads) and report.json, from which all of "
           "it is drawn.\n"
           "Measures nothing: every number is computed again from the records, so a study can be drawn wherever its "
           "folder is copied. Documents in a study's folder with/ are shown beside it. Two studies are compared rung "
           "by rung, also if they were measured on different machines, and the page names what differs. A gate has a "
           "page of its own, gate.html, which is drawn again from its gate.json.\n"
           "Of a training's folder (`ladder train --out`) it draws loss, validation loss, learning rate, norm of the "
           "gradients and tokens per second, also while the training runs; report.json then has the points of the "
           "charts. A sweep of learning rates is drawn again from its lr_sweep.json, a study of `ladder ablate "
           "--to-loss` from its to_loss.json.",
       .examples = {{"ladder report study", "Draws the study in the folder study, there."},
                    {"ladder report a100 h200 --out drawn", "Two studies side by side, into the folder drawn."},
                    {"ladder report study --with gate.json --with history.json",
                     "The same page with a gate's verdict and a history."},
                    {"ladder report report.json", "Draws a report again that another machine wrote."},
                    {"ladder report gates/GATE", "Draws a gate's page again."},
                    {"ladder report training", "Draws the training in the folder training."},
                    {"ladder report training --tensorboard runs/first",
                     "The same, and for TensorBoard; then: tensorboard --logdir runs"}},
       .common = {"--with", "--out", "--tensorboard", "--published"}});
  command.heading("Arguments");
  command
      .add_option("study", flags->studies,
                  "one study or two: a folder, NAME.study.json with NAME.records.jsonl; or a report.json, a gate, a "
                  "training's folder or log.jsonl, a sweep of learning rates, or a study of --to-loss")
      ->type_name("PATH")
      ->required()
      ->expected(1, 2);
  command.heading("What to show beside it");
  command
      .add_option("--with", flags->with,
                  "each a gate.json, history.json, noise floor or trace, or the JSON of Google Benchmark; repeatable")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command.add_flag("-v,--verbose", flags->verbose,
                   "also print what changed from rung to rung, and how numbers are computed");
  command.add_flag("--published", flags->published, "also mark figures that others have published, faintly");
  command.heading("Where the results go");
  add_output(command, "--out", flags->out, "folder to write into (default: the study's; of two: reports/FIRST-SECOND)",
             "FOLDER");
  add_output(command, "--tensorboard", flags->tensorboard,
             "of a training: also write an event file of TensorBoard's into this folder (needs tensorboardX)",
             "FOLDER");
  command.callback([&line, flags] { line.chosen = [flags] { return report(*flags); }; });
}

void add_history(CommandLine& line) {
  auto flags = std::make_shared<HistoryFlags>();
  Command& command = line.add(
      {.group = "Report",
       .name = "history",
       .summary = "how each rung's time changed over stored studies",
       .about = "Lines up studies made under equal circumstances, rung by rung, and says where the time changed: at a "
                "jump, named with its study and commits, or by a drift of small changes. It takes ten studies to find "
                "a jump and six to find a drift. Writes nothing unless --out names a folder.",
       .examples = {{"ladder history studies", "Every study in that folder and below."},
                    {"ladder history studies --out drawn", "The same, and history.json with its chart."},
                    {"ladder history studies --fail-on-slowdown",
                     "For a nightly job: exit status 1 if a rung got slower, 3 if a rung fails."}}});
  command.heading("Arguments");
  add_text(command, "folder", flags->folder, "folder of studies; every study.json in it and below counts", "FOLDER")
      ->required();
  command.heading("What counts as slower");
  add_percent(command, "--min-effect", flags->min_effect, "the least difference that matters (default 2)");
  command.add_flag(
      "--fail-on-slowdown", flags->fail_on_slowdown,
      "exit status 1 if a rung is slower than at its best; else 3 if the newest study has no time for a rung");
  command.heading("Where the results go");
  auto* out =
      add_output(command, "--out", flags->out, "write history.json and draw history.svg, history.png here", "FOLDER");
  command.add_flag("--json", flags->json, "print the history as JSON")->excludes(out);
  command.callback([&line, flags] { line.chosen = [flags] { return history(*flags); }; });
}

void add_verify(CommandLine& line) {
  auto flags = std::make_shared<VerifyFlags>();
  Command& command = line.add(
      {.group = "Report",
       .name = "verify",
       .summary = "compute a study again from its records, and every hash",
       .about =
           "Checks that a study follows from its records. Computes again every number and text of study.json, the "
           "summary, sizes and proofs of each record, and the SHA-256 of each file. Names what differs, with both "
           "values. If nothing differs, it also makes report.json and the tables beside the study again and compares "
           "them. --json names the files that are not covered, such as pages, pictures and logs. Writes nothing. The "
           "exit status is 1 if something differs.",
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
      {.group = "Report",
       .name = "merge",
       .summary = "join the shards of a study",
       .about =
           "Each machine measures a part of the repeats with `ladder ablate --shard i/n` and the same other "
           "flags. This command joins the parts into one study in --out, says which runs are missing, and draws the "
           "study. It refuses parts with different plans, programs, texts or kinds of device.",
       .examples = {
           {"ladder merge shard-1 shard-2 --out whole", "Joins two shards into one study in the folder whole."},
           {"ladder merge --group-by-device shard-* --out whole", "One study for each kind of device."}}});
  command.heading("Arguments");
  command.add_option("shards", flags->shards, "folders of ladder ablate --shard")->type_name("FOLDER")->required();
  command.heading("What to join");
  command.add_flag("--group-by-device", flags->group_by_device,
                   "make one study for each kind of device, in a folder of --out (default: refuse different devices)");
  command.heading("Where the results go");
  add_output(command, "--out", flags->out, "folder of the study; may already hold a part", "FOLDER")->required();
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
