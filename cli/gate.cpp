// `ladder gate`: its flags and its help. What it does is in cli/gpt2/gate.cpp.
#include "cli/command.h"
#include "cli/commands.h"
#include "files/resources.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace cli {

namespace {

// A command's noise belongs to the user, not to the repository that is measured.
int gate_of(const GateFlags& given) {
  GateFlags flags = given;
  const bool is_of_command = !flags.command.empty();
  if (flags.baselines.empty()) {
    flags.baselines = is_of_command ? (files::cache_folder() / "baselines").string() : usual_baselines;
  }
  return is_of_command ? gate_of_commits(flags) : gate(flags);
}

}  // namespace

void add_gate(CommandLine& line) {
  Command& command = line.add(
      {.group = "Compare",
       .name = "gate",
       .summary = "did the program become slower? exit status for CI",
       .about =
           "Runs two programs in turn, or one program against a stored baseline of this device, each run in a fresh "
           "process. Ends with one verdict. Exit status: 0 the same or faster; 1 slower, different losses, or head "
           "failed; 3 inconclusive, or base failed.\n"
           "With `-- COMMAND` it compares two commits of any program, each in a git worktree of its own, by the steps "
           "that "
           "the command prints.\n"
           "Leaves a folder with the records, gate.json, summary.md, a page, gate.html, and its charts; "
           "with --save also a baseline. docs/power.md says how small a slowdown it finds and how often it is wrong.",
       .examples = {{"ladder gate --base old/bundle --head new/bundle", "Two bundles side by side."},
                    {"ladder gate --calibrate --save",
                     "How small a difference this machine can show: its noise floor."},
                    {"ladder gate --base origin/main --catch 2 -- python train.py",
                     "Any program's two commits: find a slowdown of 2 % in 95 % of gates."},
                    {"ladder gate --save",
                     "The first time, makes a baseline of this device; later, compares with it."}},
       .common = {"--base", "--head", "--save", "--calibrate", "--ladder", "--rung", "--pairs", "--min-effect", "--out",
                  "--resume", "--json"}});
  GateFlags& flags = command.runs(gate_of);
  command.heading("What to compare");
  add_text(command, "--base", flags.base,
           "the program as it was: a bundle's folder, or a program; with a command a commit", "PATH");
  add_text(command, "--head", flags.head, "the program as it is now (default: this one; with a command HEAD)", "PATH");
  add_output(command, "--baselines", flags.baselines,
             "folder with baselines by device and recipe: compared with if there is no --base, and where --save "
             "stores (default: results/baselines; of a command: in the cache folder)",
             "FOLDER");
  command.add_flag("--calibrate", flags.calibrate,
                   "--head against itself: how small a difference this machine can show");
  command.add_flag("--save", flags.save,
                   "store the runs if there is no baseline or they are faster; with --calibrate the noise floor");
  add_ladder_flag(command, flags.ladder, "where the recipes come from (default: same as ablate)");
  add_rungs_flag(command, "--rung", flags.rungs, "rungs to measure (default: the last)");
  command.heading("Any program's command");
  command.add_option("command", flags.command, "after --: what trains, as on a shell's command line")
      ->type_name("-- COMMAND");
  add_text(command, "--prepare", flags.prepare,
           "what each commit needs once before, for sh, in a Python environment of its own: 'pip install -q -e .'",
           "COMMAND");
  command
      .add_option("--catch", flags.catches,
                  "the slowdown that 95 % of gates are to find: sets --min-effect and --pairs from the noise that "
                  "--calibrate --save has stored")
      ->transform(percentage())
      ->type_name("PERCENT");
  add_number(command, "--for-s", flags.budget_s, "with --catch: the seconds that the runs may take", 1, 1000000)
      ->needs(command.get_option("--catch"));
  add_text(command, "--steps-from", flags.steps_from, "as ladder measure's", "REGEX");
  add_number(command, "--tokens", flags.tokens, "tokens of a step", 1, 1000000000000);
  command.heading("How to compare");
  add_min_effect_flag(command, flags.min_effect, "slowdown");
  add_number(command, "--pairs", flags.pairs,
             "pairs of runs, fresh processes (default 8; 16 to calibrate); 6 can reach a verdict", 6, 1000);
  add_number(command, "--top-up", flags.top_up, "more pairs, once, if those are inconclusive (default: as many again)",
             0, 1000);
  command.add_flag("--blocked", flags.blocked,
                   "make all runs of base before those of head, if one disturbs the other; drift is then not seen");
  add_number(command, "--limit-s", flags.limit_s, "seconds after which a run is stopped (default 900)", 1, 1000000);
  command.add_flag("--force", flags.force, "compare even if the circumstances differ, and say so");
  add_wait_flag(command, flags.wait);
  add_workload_flags(command, flags.workload, "the ladder's", "the ladder's");
  command.heading("Where the results go");
  add_output(command, "--out", flags.out, "folder of the gate (default: gates/<ladder>-<time>)", "FOLDER");
  command.add_flag("--resume", flags.resume,
                   "make the runs that the gate in --out lacks; --base and --head must name the same programs again");
  command.add_flag("--json", flags.json, "print the verdict as JSON");
  command.exclude("--base", {"--calibrate", "--save"});  // what is saved must be faster than what is stored
  command.exclude("--catch", {"--min-effect", "--pairs", "--top-up", "--calibrate", "--resume"});
  command.exclude("--calibrate", {"--min-effect", "--top-up", "--blocked", "--force"});
  command.callback([&command] {
    check_resume(command, {"--base", "--head", "--baselines", "--json", "--wait"}, "gate");
  });
}

}  // namespace cli
