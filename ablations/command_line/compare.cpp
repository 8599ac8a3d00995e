// Commands that compare: compare, gate.
#include "ablations/command_line/command.h"
#include "ablations/commands/commands.h"
#include "ablations/plan/ladder.h"

#include <memory>
#include <stdexcept>

namespace ablations {
namespace {

constexpr const char* group = "Compare";

void add_compare(CommandLine& line) {
  auto flags = std::make_shared<CompareFlags>();
  Command& command = line.add(
      {.group = group,
       .name = "compare",
       .summary = "two records, studies or folders of records: a paired table",
       .about =
           "Pairs the runs of two sides and says for each recipe how long a step of HEAD takes over one of BASE, with "
           "an interval and a verdict: REGRESSION, IMPROVEMENT, SAME or INCONCLUSIVE against the least difference that "
           "matters. Losses and memory are compared as well. Measures and writes nothing; a difference is no failure, "
           "so the exit status is 0. Different circumstances, such as another GPU, are refused.",
       .examples = {{"ladder compare before after", "Two studies, rung by rung."},
                    {"ladder compare --min-effect 5 before/records after/records", "Only 5 % and more matter."},
                    {"ladder compare --markdown before after", "The table for a pull request."}}});
  command.heading("Arguments");
  add_text(command, "base", flags->base, "what it was: a record, a study or a folder of records", "PATH")->required();
  add_text(command, "head", flags->head, "what it is now", "PATH")->required();
  command.heading("How to compare");
  add_percent(command, "--min-effect", flags->min_effect, "the least difference that matters (default 2)");
  command.add_flag("--force", flags->force, "compare what was measured under different circumstances, and say so");
  command.heading("What to print");
  auto* json = command.add_flag("--json", flags->json, "for programs");
  command.add_flag("--markdown", flags->markdown, "for a page")->excludes(json);
  command.callback([&line, flags] { line.chosen = [flags] { return compare(*flags); }; });
}

void add_gate(CommandLine& line) {
  auto flags = std::make_shared<GateFlags>();
  Command& command = line.add(
      {.group = group,
       .name = "gate",
       .summary = "did the program become slower? exit status for a merge",
       .about =
           "Runs two programs in turn in fresh processes, or one against a stored baseline of this device, and ends "
           "with one verdict. Exit status: 0 the same or faster; 1 slower, other losses, or a head that fails; 3 "
           "inconclusive, or base failed.\n"
           "Leaves a folder with the records, gate.json, summary.md, a page, gate.html, and its charts; "
           "with --save also a baseline. docs/power.md says how small a slowdown it finds and how often it is wrong.",
       .examples = {{"ladder gate --base old/bundle --head new/bundle", "Two bundles side by side."},
                    {"ladder gate --calibrate --save", "What this machine can show: its noise floor."},
                    {"ladder gate --save", "Makes a baseline of this device; the next time, compares with it."}}});
  command.heading("What to compare");
  auto* base =
      add_text(command, "--base", flags->base, "the program as it was: a bundle's folder, or a program", "PATH");
  add_text(command, "--head", flags->head, "the program as it is now (default: this one)", "PATH");
  add_text(
      command, "--baselines", flags->baselines,
      "folder with baselines by device and recipe: what to compare with where there is no --base, and where --save "
      "stores (default: results/baselines)",
      "FOLDER");
  auto* calibrate = command.add_flag("--calibrate", flags->calibrate,
                                     "--head against itself: how small a difference this machine can show");
  auto* save = command.add_flag("--save", flags->save,
                                "store the runs where there is no baseline or they are faster, or the noise floor");
  auto* ladder = add_text(command, "--ladder", flags->ladder, "where the recipes come from (default: same as ablate)",
                          "NAME|FILE");
  auto* rungs = command.add_option("--rung", flags->rungs, "a rung to measure, repeatable (default: the last)");
  rungs->type_name("NAME")->allow_extra_args(false);
  command.values[ladder] = ladder_names();
  command.values[rungs] = rung_names();
  command.heading("How to compare");
  auto* effect = add_percent(command, "--min-effect", flags->min_effect, "the least slowdown that matters (default 2)");
  add_number(command, "--pairs", flags->pairs,
             "pairs of runs, fresh processes (default 8; 16 to calibrate); 6 can reach a verdict", 6, 1000);
  auto* top_up = add_number(command, "--top-up", flags->top_up,
                            "pairs that follow, once, where those leave it open (default: as many again)", 0, 1000);
  auto* blocked =
      command.add_flag("--blocked", flags->blocked,
                       "all of base's runs before head's, where one disturbs the other; drift is then not seen");
  add_number(command, "--limit", flags->limit_s, "seconds after which a run is stopped (default 900)", 1, 1000000)
      ->type_name("SECONDS");
  auto* force = command.add_flag("--force", flags->force, "compare under different circumstances, and say so");
  add_wait(command, flags->wait);
  add_workload_flags(command, flags->workload, "the ladder's", "the ladder's");
  command.heading("Where the results go");
  add_text(command, "--out", flags->out, "folder of the gate (default: gates/<ladder>-<time>)", "FOLDER");
  command.add_flag("--resume", flags->resume,
                   "make only the runs that the gate in --out lacks, of programs that --base and --head name again");
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
