// Commands that compare: compare, gate.
#include "ablations/plan/ladder.h"
#include "cli/command.h"
#include "cli/commands.h"

#include <memory>
#include <stdexcept>

namespace ablations {
namespace {

void add_compare(CommandLine& line) {
  auto flags = std::make_shared<CompareFlags>();
  Command& command = line.add(
      {.group = "Compare",
       .name = "compare",
       .summary = "compare two records, studies or folders of records",
       .about =
           "Pairs the runs of two sides. For each recipe it gives the ratio of a step's time, HEAD over BASE, with "
           "an interval and a verdict: REGRESSION, IMPROVEMENT, SAME or INCONCLUSIVE against the least difference that "
           "matters. Compares losses and memory, too. Measures and writes nothing. The exit status is 0 even if there "
           "are differences. Refuses sides measured under different circumstances, such as on another GPU.",
       .examples = {
           {"ladder compare before after", "Two studies, rung by rung."},
           {"ladder compare --min-effect 5 before/records after/records", "Only differences of 5 % or more matter."},
           {"ladder compare --markdown before after", "The table for a pull request."}}});
  command.heading("Arguments");
  add_text(command, "base", flags->base, "the old side: a record, a study or a folder of records", "PATH")->required();
  add_text(command, "head", flags->head, "the new side", "PATH")->required();
  command.heading("How to compare");
  add_percent(command, "--min-effect", flags->min_effect, "the least difference that matters (default 2)");
  command.add_flag("--force", flags->force, "compare even if the circumstances differ, and say so");
  command.heading("What to print");
  auto* json = command.add_flag("--json", flags->json, "for programs");
  command.add_flag("--markdown", flags->markdown, "for a page")->excludes(json);
  command.callback([&line, flags] { line.chosen = [flags] { return compare(*flags); }; });
}

void add_gate(CommandLine& line) {
  auto flags = std::make_shared<GateFlags>();
  Command& command = line.add(
      {.group = "Compare",
       .name = "gate",
       .summary = "did the program become slower? exit status for CI",
       .about =
           "Runs two programs in turn, or one program against a stored baseline of this device, each run in a fresh "
           "process. Ends with one verdict. Exit status: 0 the same or faster; 1 slower, different losses, or head "
           "failed; 3 inconclusive, or base failed.\n"
           "Leaves a folder with the records, gate.json, summary.md, a page, gate.html, and its charts; "
           "with --save also a baseline. docs/power.md says how small a slowdown it finds and how often it is wrong.",
       .examples = {{"ladder gate --base old/bundle --head new/bundle", "Two bundles side by side."},
                    {"ladder gate --calibrate --save",
                     "How small a difference this machine can show: its noise floor."},
                    {"ladder gate --save",
                     "The first time, makes a baseline of this device; later, compares with it."}},
       .common = {"--base", "--head", "--save", "--calibrate", "--ladder", "--rung", "--pairs", "--min-effect", "--out",
                  "--resume", "--json"}});
  command.heading("What to compare");
  auto* base =
      add_text(command, "--base", flags->base, "the program as it was: a bundle's folder, or a program", "PATH");
  add_text(command, "--head", flags->head, "the program as it is now (default: this one)", "PATH");
  add_output(command, "--baselines", flags->baselines,
             "folder with baselines by device and recipe: compared with if there is no --base, and where --save "
             "stores (default: results/baselines)",
             "FOLDER");
  auto* calibrate = command.add_flag("--calibrate", flags->calibrate,
                                     "--head against itself: how small a difference this machine can show");
  auto* save =
      command.add_flag("--save", flags->save,
                       "store the runs if there is no baseline or they are faster; with --calibrate the noise floor");
  auto* ladder = add_text(command, "--ladder", flags->ladder, "where the recipes come from (default: same as ablate)",
                          "NAME|FILE");
  auto* rungs = add_names(command, "--rung", flags->rungs, "rungs to measure (default: the last)");
  command.values[ladder] = ladder_names();
  command.values[rungs] = rung_names();
  command.heading("How to compare");
  auto* effect = add_percent(command, "--min-effect", flags->min_effect, "the least slowdown that matters (default 2)");
  add_number(command, "--pairs", flags->pairs,
             "pairs of runs, fresh processes (default 8; 16 to calibrate); 6 can reach a verdict", 6, 1000);
  auto* top_up = add_number(command, "--top-up", flags->top_up,
                            "more pairs, once, if those are inconclusive (default: as many again)", 0, 1000);
  auto* blocked =
      command.add_flag("--blocked", flags->blocked,
                       "make all runs of base before those of head, if one disturbs the other; drift is then not seen");
  add_number(command, "--limit-s", flags->limit_s, "seconds after which a run is stopped (default 900)", 1, 1000000);
  auto* force = command.add_flag("--force", flags->force, "compare even if the circumstances differ, and say so");
  add_wait(command, flags->wait);
  add_workload_flags(command, flags->workload, "the ladder's", "the ladder's");
  command.heading("Where the results go");
  add_output(command, "--out", flags->out, "folder of the gate (default: gates/<ladder>-<time>)", "FOLDER");
  command.add_flag("--resume", flags->resume,
                   "make the runs that the gate in --out lacks; --base and --head must name the same programs again");
  command.add_flag("--json", flags->json, "print the verdict as JSON");
  base->excludes(calibrate);
  base->excludes(save);  // faster than another program is not faster than what is stored
  for (CLI::Option* option : {effect, top_up, blocked, force}) calibrate->excludes(option);
  command.callback([&line, &command, flags] {
    if (flags->resume) check_resume(command, {"--base", "--head", "--baselines", "--json", "--wait"}, "gate");
    line.chosen = [flags] { return gate(*flags); };
  });
}

}  // namespace

void add_comparing_commands(CommandLine& line) {
  add_compare(line);
  add_gate(line);
}

}  // namespace ablations
