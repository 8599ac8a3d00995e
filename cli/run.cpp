// `ladder run`: its flags and its help. What it does is in cli/gpt2/run.cpp.
#include "cli/command.h"
#include "cli/commands.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace cli {

void add_run(CommandLine& line) {
  Command& command = line.add(
      {.group = "Measure",
       .name = "run",
       .summary = "one run in this process, with its proofs",
       .about =
           "Trains for a few steps with one recipe. Prints the time of a step, the memory, and how many settings of "
           "the recipe were seen to take effect. Writes nothing unless --out names a file for the record, which "
           "holds every step. With --from it repeats the run of a record and says whether the losses are the same. "
           "The exit status is 1 if a proof failed or the losses differ.",
       .examples = {{"ladder run --rung flash --out record.json", "This machine's ladder up to that rung."},
                    {"ladder run --model tiny -T 64 --recipe '{\"autocast\": \"bf16\"}'",
                     "A recipe of your own on the two-layer model."},
                    {"ladder run --from record.json", "The same run again. Are the losses the same?"}},
       .common = {"--verbose", "--rung", "--ladder", "--recipe", "--from", "--model", "--batch", "--context", "--steps",
                  "--out", "--json"}});
  RunFlags& flags = command.runs(run);
  command.heading("What to run");
  add_text(command, "--recipe", flags.recipe, "JSON file, or JSON: '{\"autocast\": \"bf16\"}'", "FILE|JSON");
  CLI::Option* const rung = add_rung_flag(command, flags.rung);
  add_ladder_flag(command, flags.ladder, "where --rung is looked up (default: same as ablate)")->needs(rung);
  CLI::Option* const plan = add_text(command, "--plan", flags.plan, "a study's plan.json", "FILE");
  plan->needs(add_text(command, "--run", flags.run_id, "a run of --plan, by its id", "ID")->needs(plan));
  CLI::Option* const from =
      add_text(command, "--from", flags.from,
               "a record: run it again, on its data, and say whether the losses are the same", "RECORD");
  command.add_flag("--any-program", flags.any_program, "with --from: also if another program made the record")
      ->needs(from);
  add_wait_flag(command, flags.wait);
  command.add_flag("--report-steps-to-parent", flags.report_steps)->group("");
  command.add_option("--time-against", flags.time_against)->group("");
  add_workload_flags(command, flags.workload, "gpt2-124m, or the ladder's",
                     "the ladder's, else 1 x 256 tokens, 5 + 10 steps");
  add_data_flags(command, flags.workload);
  add_deterministic_flag(command, flags.workload);
  command.heading("Where the results go");
  add_output(command, "--out", flags.record, "write the record here (default: nowhere)", "FILE",
             "--json prints the record");
  command.add_flag("-v,--verbose", flags.verbose, "list the proofs (default: only if one failed)");
  add_text(command, "--record", flags.record, "--out, as runners of every version call it", "FILE")->group("");
  command.add_flag("--json", flags.json, "print the record as JSON");
  command.exclude("--recipe", {"--rung", "--plan", "--from"});
  command.exclude("--rung", {"--plan", "--from"});
  // A plan names its data; a record does not.
  command.exclude("--plan", {"--from", "--data", "--vocab", "--repeat-to"});
  for (const char* const flag : {"--plan", "--from"}) {
    command.exclude(flag, size_flags);
    command.exclude(flag, {"--steps", "--warmup", "--seed", "--threads", "--deterministic", "--cold-cache"});
  }
}

}  // namespace cli
