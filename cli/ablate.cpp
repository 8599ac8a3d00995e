// `ladder ablate`: its flags and its help. What it does is in cli/gpt2/ablate.cpp.
#include "ablations/plan/ladder_file.h"
#include "cli/command.h"
#include "cli/commands.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace cli {

bool is_to_loss(const AblateFlags& flags) {
  return flags.to_loss.loss > 0 || (flags.resume && holds_to_loss(flags.out));
}

namespace {

// The flags of runs, which --to-loss does not make.
const std::vector<std::string> flags_of_runs{"--mode",      "--factors", "--sweep",   "--with-peer",  "--peer-modes",
                                             "--peer-rung", "--quick",   "--repeats", "--order-seed", "--limit-s",
                                             "--budget-s",  "--force",   "--warmup",  "--repeat-to",  "--cold-cache",
                                             "--shard",     "--explain", "--dry-run"};

const Words ablate_words{
    .group = "Measure",
    .name = "ablate",
    .summary = "measure a ladder: what each optimization brings",
    .about =
        "Switches on the optimizations of a ladder one after another, and measures each rung in fresh processes in "
        "interleaved order. A rung has no number if its optimization was not seen to be on, or if its losses do not "
        "follow the reference's. Without flags it measures the ladder that fits this machine.\n"
        "Leaves a folder with the plan, a record of each run, study.json with every derived number, and the "
        "report with its charts. The exit status is 1 if a rung failed. --resume continues a study that was "
        "interrupted.\n"
        "With --to-loss it trains each rung with several seeds instead, all on the same text, and tells how many "
        "seconds each takes to a validation loss, and whether it ends with the same quality as the first rung. In "
        "--out it leaves to_loss.json, a page and a chart, and the log of each training. The exit status is 1 if a "
        "training failed or diverged.",
    .examples = {{"ladder ablate --ladder tiny", "All of it in seconds, on a two-layer model."},
                 {"ladder ablate --quick --out study", "A first look: the first and the last rung."},
                 {"ladder ablate --resume --out study", "Makes the runs that are missing."},
                 {"ladder ablate --dry-run", "What would be run, how long it would take, and where it would write."},
                 {"ladder ablate --repeats 8 --out study", "More runs of each rung, for narrower intervals."},
                 {"ladder ablate --mode leave-one-out", "What is lost without each optimization?"},
                 {"ladder ablate --sweep batch=1,2,4 --rung bf16,flash",
                  "Speed and memory of two rungs over batch sizes."},
                 {"ladder ablate --ladder data-pipeline-cpu --repeat-to 500MB --cold-cache",
                  "What the input costs, from a file that is not in the page cache."},
                 {"ladder ablate --with-peer pytorch --peer-modes eager,compile",
                  "The same work in plain PyTorch, its runs between ours."},
                 {"ladder ablate --ladder tiny --to-loss 9 --steps 200 --out time-to-loss",
                  "How long does each rung take to a validation loss of 9, and does it end as well?"}},
    .common = {"--ladder", "--quick", "--repeats", "--dry-run", "--mode", "--with-peer", "--batch", "--context",
               "--data", "--out", "--resume", "--json"},
    .stray = "--ladder"};

void add_flags_of_rungs(Command& command, AblateFlags& flags) {
  command.heading("What to measure");
  add_choice(command, "--ladder", flags.ladder, ladder_names(),
             ", or a file (default: gpt2 with a GPU, gpt2-cpu without)", "NAME|FILE");
  add_choice(command, "--mode", flags.design.mode, mode_names(), " (default: cumulative)", "MODE");
  command.values[add_names(command, "--factors", flags.design.factors,
                           "optimizations of --mode factorial (default: all, if at most 4)")] = rung_names();
  command.values[add_text(command, "--sweep", flags.design.sweep,
                          "batch=16,32,64, context=512,1024 or accumulation=1,2,4: speed and memory over sizes",
                          "WHAT=N,N")] = {"batch=", "context=", "accumulation="};
  add_rungs_flag(command, "--rung", flags.design.rungs,
                 "rungs to measure with --sweep (default: the last) or to train with --to-loss (default: all); "
                 "the first is what the others are compared with; a rung may be given twice",
                 Repeats::kept);
  command.values[add_text(command, "--with-peer", flags.design.peer,
                          "pytorch: the same work in plain PyTorch, its runs between ours", "PEER")] = {"pytorch"};
  command.values[add_names(command, "--peer-modes", flags.design.peer_modes,
                           "eager,compile,max-autotune,cuda-graphs,fp8 (default: all that the device has, but fp8)")] =
      {"eager", "compile", "max-autotune", "cuda-graphs", "fp8"};
  add_rungs_flag(command, "--peer-rung", flags.design.peer_rungs,
                 "with --with-peer: rungs to compare with PyTorch (default: the last)");
  command.add_flag(
      "--explain", flags.explain,
      "also trace every rung, in a process of its own, and say what each one changed (default: on a GPU, without "
      "--budget-s or --quick)");
}

void add_flags_of_effort(Command& command, AblateFlags& flags) {
  command.heading("How often and how long");
  command.add_flag("--quick", flags.quick, "a first look; --resume measures the rest of the ladder");
  add_number(command, "--repeats", flags.repeats, "runs of each rung (default: the ladder's)", 1, 1000);
  add_number(command, "--order-seed", flags.order_seed,
             "seed of the interleaved order (default: a new one, recorded; with --shard: 1)", 0, INT64_MAX);
  add_number(command, "--limit-s", flags.limit_s, "seconds after which a run is stopped (default 900)", 1, 1000000);
  add_number(command, "--budget-s", flags.budget_s,
             "seconds after which no run and no trace is started; --resume makes the rest (default: no budget)", 1,
             1000000);
  command.add_flag("-n,--dry-run", flags.dry_run, "print the plan, its time and memory; run nothing");
  command.add_flag(
      "--force", flags.force,
      "start although a run is expected to exceed --limit-s or the memory (default: refuse, exit status 3)");
  add_wait_flag(command, flags.wait);
}

void add_flags_of_results(Command& command, AblateFlags& flags) {
  command.heading("Where the results go");
  add_output(command, "--out", flags.out, "folder of the study (default: studies/<ladder>-<time>)", "FOLDER");
  command.add_flag("-v,--verbose", flags.verbose,
                   "also print what changed from rung to rung, and how numbers are computed");
  command.add_flag("--resume", flags.resume,
                   "make the runs that the study in --out lacks; after a quick look, those of the whole ladder");
  add_text(command, "--shard", flags.shard,
           "measure only every n-th repeat, from the i-th on, into --out: for n machines; ladder merge joins them",
           "i/n");
  command.add_flag("--json", flags.json, "print the study as JSON, draw nothing");
}

void check_flags(const Command& command, const AblateFlags& flags) {
  check_resume(command, {"--json", "--budget-s", "--explain", "--wait", "--quick", "--dry-run"}, "study");
  if (!is_to_loss(flags)) {
    if (flags.shard.empty() || !flags.out.empty()) return;
    throw std::invalid_argument("--shard needs --out, a folder of its own for each shard");
  }
  if (flags.out.empty()) throw std::invalid_argument("--to-loss needs --out, the folder of its trainings");
  for (const std::string& flag : flags_of_runs) {
    if (command.count(flag) == 0) continue;
    throw std::invalid_argument(
        fmt::format("{}: cannot be combined with --resume of a study that was begun with --to-loss", flag));
  }
}

}  // namespace

void add_ablate(CommandLine& line) {
  Command& command = line.add(ablate_words);
  AblateFlags& flags = command.runs(ablate);
  add_flags_of_rungs(command, flags);
  add_flags_of_effort(command, flags);
  add_workload_flags(command, flags.workload, "the ladder's", "the ladder's");
  add_data_flags(command, flags.workload);
  add_deterministic_flag(command, flags.workload);
  add_flags_of_results(command, flags);
  add_to_loss_flags(command, flags.to_loss);
  command.exclude("--explain", {"--shard"});
  command.exclude("--quick", {"--repeats", "--shard", "--sweep", "--with-peer", "--factors", "--mode"});
  command.exclude("--to-loss", flags_of_runs);
  command.get_option("--steps")->description(
      "timed steps of a run (default: the ladder's; on a GPU up to eight times as many, until they last 1.5 s); with "
      "--to-loss: updates of the weights");
  command.callback([&command, &flags] { check_flags(command, flags); });
}

}  // namespace cli
