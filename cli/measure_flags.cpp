// Commands that measure: doctor, ablate, run, profile.
#include "ablations/plan/ladder.h"
#include "cli/command.h"
#include "cli/commands.h"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <string_view>

namespace ablations {
namespace {

void add_doctor(CommandLine& line) {
  auto flags = std::make_shared<DoctorFlags>();
  Command& command = line.add(
      {.group = "Measure",
       .name = "doctor",
       .summary = "what this machine can measure, and what to fix",
       .about =
           "Shows the processor, the GPU, memory, and the data. Says for each ladder whether it can be measured here, "
           "for how long and with how much memory; then what to fix, and the command to begin with. Writes nothing.\n"
           "With --plan it says instead how much memory a step will take, part by part, and the largest batch that "
           "fits. Nothing is run. The exit status is 1 if the step does not fit, and 3 if its device is not here and "
           "--memory is not given.",
       .examples = {{"ladder doctor", "The machine, its ladders, and what to fix before measuring."},
                    {"ladder doctor --ladder gpt2", "Each rung of that ladder, and why some cannot be measured."},
                    {"ladder doctor --plan flash -B 8", "Does that rung fit at B=8? What is the largest B that does?"},
                    {"ladder doctor --plan graph --ladder gpt2 -B 64 --memory 80GiB",
                     "The same of a GPU with 80 GiB, which need not be here."},
                    {"ladder doctor --peaks", "Measured memory and matrix rates beside the maker's figures."}},
       .common = {"--ladder", "--plan", "--memory", "--model", "--batch", "--context", "--peaks", "--json"}});
  command.heading("What to print");
  auto* peaks = command.add_flag("--peaks", flags->peaks,
                                 "measure memory and matrix rates, and show them beside the maker's figures (some "
                                 "seconds)");
  auto* plan = add_text(command, "--plan", flags->plan,
                        "the memory of this step: a rung of --ladder, or a recipe ('{\"autocast\": \"bf16\"}')",
                        "RUNG|FILE|JSON")
                   ->excludes(peaks);
  command.add_flag("--json", flags->json, "print JSON, for programs");
  auto* ladder = add_text(command, "--ladder", flags->ladder,
                          "show each rung of this ladder; with --plan: where its rung is looked up", "NAME|FILE")
                     ->excludes(peaks);
  command.heading("With --plan");
  add_bytes(command, "--memory", flags->memory,
            "a device with so much memory, as a GPU of compute capability 9.0 (default: this machine's)", 1000000,
            100000000000000)
      ->needs(plan);
  command.values[plan] = rung_names();
  command.values[ladder] = ladder_names();
  add_size_flags(command, flags->workload, "gpt2-124m, or the ladder's", "the ladder's, else 1 x 256 tokens");
  for (const char* flag : size_flags) command.get_option(flag)->needs(plan);
  command.callback([&line, flags] { line.chosen = [flags] { return doctor(*flags); }; });
}

// Of runs, which --to-loss does not make.
constexpr const char* flags_of_runs[] = {"--mode",      "--factors", "--sweep",   "--with-peer",  "--peer-modes",
                                         "--peer-rung", "--quick",   "--repeats", "--order-seed", "--limit-s",
                                         "--budget-s",  "--force",   "--warmup",  "--repeat-to",  "--cold-cache",
                                         "--shard",     "--explain", "--dry-run"};

CLI::Option* add_to_loss_flags(Command& command, ToLossFlags& flags) {
  command.heading("Time to a loss");
  auto* to_loss = add_real(
      command, "--to-loss", flags.loss,
      "train each rung for --steps, --tokens or --epochs: seconds to this validation loss, and quality at the end",
      "a number above 0", [](double loss) { return loss > 0; });
  add_number(command, "--seeds", flags.seeds, "trainings of each rung, with seeds from --seed on (default 3)", 1, 100)
      ->needs(to_loss);
  add_real(command, "--margin", flags.margin,
           "nats by which a rung's loss at the end may be higher and still count as the same quality (default 0.02)",
           "a number above 0", [](double margin) { return margin > 0; })
      ->needs(to_loss);
  add_length_flags(command, flags.training);
  add_learning_flags(command, flags.training);
  add_validation_flags(command, flags.training, "a twentieth of all");
  for (const char* flag : training_flags) command.get_option(flag)->needs(to_loss);
  return to_loss;
}

// What both kinds of studies take from the same flags.
void take_common_flags(const AblateFlags& flags, ToLossFlags& to_loss) {
  to_loss.training.workload = flags.workload;
  to_loss.training.out = flags.out;
  to_loss.training.resume = flags.resume;
  to_loss.training.json = flags.json;
  to_loss.ladder = flags.ladder;
  to_loss.rungs = flags.design.rungs;
  to_loss.wait = flags.wait;
}

void add_ablate(CommandLine& line) {
  auto flags = std::make_shared<AblateFlags>();
  Command& command = line.add(
      {.group = "Measure",
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
       .stray = "--ladder"});
  command.heading("What to measure");
  add_choice(command, "--ladder", flags->ladder, ladder_names(),
             ", or a file (default: gpt2 with a GPU, gpt2-cpu without)", "NAME|FILE");
  add_choice(command, "--mode", flags->design.mode, mode_names(), " (default: cumulative)", "MODE");
  auto* factors = add_names(command, "--factors", flags->design.factors,
                            "optimizations of --mode factorial (default: all, if at most 4)");
  auto* sweep =
      add_text(command, "--sweep", flags->design.sweep,
               "batch=16,32,64, context=512,1024 or accumulation=1,2,4: speed and memory over sizes", "WHAT=N,N");
  auto* rung = add_names(command, "--rung", flags->design.rungs,
                         "rungs to measure with --sweep (default: the last) or to train with --to-loss (default: all); "
                         "the first is what the others are compared with; a rung may be given twice",
                         Repeats::kept);
  auto* peer = add_text(command, "--with-peer", flags->design.peer,
                        "pytorch: the same work in plain PyTorch, its runs between ours", "PEER");
  auto* peer_modes = add_names(command, "--peer-modes", flags->design.peer_modes,
                               "eager,compile,max-autotune,cuda-graphs (default: all that the device has)");
  auto* peer_rung = add_names(command, "--peer-rung", flags->design.peer_rungs,
                              "with --with-peer: rungs to compare with PyTorch (default: the last)");
  command.values[rung] = command.values[peer_rung] = rung_names();
  command.values[factors] = rung_names();
  command.values[sweep] = {"batch=", "context=", "accumulation="};
  command.values[peer] = {"pytorch"};
  command.values[peer_modes] = {"eager", "compile", "max-autotune", "cuda-graphs"};
  command.heading("How often and how long");
  auto* quick = command.add_flag("--quick", flags->quick, "a first look; --resume measures the rest of the ladder");
  auto* repeats =
      add_number(command, "--repeats", flags->repeats, "runs of each rung (default: the ladder's)", 1, 1000);
  add_number(command, "--order-seed", flags->order_seed,
             "seed of the interleaved order (default: a new one, recorded; with --shard: 1)", 0, INT64_MAX);
  add_number(command, "--limit-s", flags->limit_s, "seconds after which a run is stopped (default 900)", 1, 1000000);
  add_number(command, "--budget-s", flags->budget_s,
             "seconds after which no run and no trace is started; --resume makes the rest (default: no budget)", 1,
             1000000);
  auto* dry_run =
      command.add_flag("-n,--dry-run", flags->dry_run, "print the plan, its time, memory and folder; run nothing");
  command.add_flag(
      "--force", flags->force,
      "start although a run is expected to exceed --limit-s or the memory (default: refuse, exit status 3)");
  add_wait(command, flags->wait);
  add_workload_flags(command, flags->workload, "the ladder's", "the ladder's");
  add_data_flags(command, flags->workload);
  add_deterministic_flag(command, flags->workload);
  command.heading("Where the results go");
  add_output(command, "--out", flags->out, "folder of the study (default: studies/<ladder>-<time>)", "FOLDER");
  command.add_flag("-v,--verbose", flags->verbose,
                   "also print what changed from rung to rung, and how numbers are computed");
  command.add_flag("--resume", flags->resume,
                   "make the runs that the study in --out lacks; after a quick look, those of the whole ladder");
  auto* shard = add_text(
      command, "--shard", flags->shard,
      "measure only every n-th repeat, from the i-th on, into --out: for n machines; ladder merge joins them", "i/n");
  command
      .add_flag(
          "--explain", flags->explain,
          "also trace every rung, in a process of its own, and say what each one changed (default: on a GPU, without "
          "--budget-s or --quick)")
      ->excludes(shard)
      ->group("What to measure");
  dry_run->excludes(command.get_option("--resume"));
  for (CLI::Option* option : {repeats, shard, sweep, peer, factors, command.get_option("--mode")})
    quick->excludes(option);
  command.add_flag("--json", flags->json, "print the study as JSON, draw nothing");
  auto to_loss_flags = std::make_shared<ToLossFlags>();
  auto* to_loss_flag = add_to_loss_flags(command, *to_loss_flags);
  for (const char* flag : flags_of_runs) to_loss_flag->excludes(command.get_option(flag));
  command.get_option("--steps")->description(
      "timed steps of a run (default: the ladder's; on a GPU up to eight times as many, until they last 1.5 s); with "
      "--to-loss: "
      "updates of the weights");
  command.callback([&line, &command, flags, to_loss_flags, to_loss_flag] {
    if (flags->resume) check_resume(command, {"--json", "--budget-s", "--explain", "--wait", "--quick"}, "study");
    const bool goes_on = flags->resume && holds_to_loss(flags->out);
    if (goes_on || to_loss_flag->count() > 0) {
      if (flags->out.empty()) throw std::invalid_argument("--to-loss needs --out, the folder of its trainings");
      for (const char* flag : flags_of_runs) {
        if (command.count(flag) == 0) continue;
        throw std::invalid_argument(
            fmt::format("{}: cannot be combined with --resume of a study that was begun with --to-loss", flag));
      }
      take_common_flags(*flags, *to_loss_flags);
      line.chosen = [to_loss_flags] { return to_loss(*to_loss_flags); };
      return;
    }
    if (!flags->shard.empty() && flags->out.empty())
      throw std::invalid_argument("--shard needs --out, a folder of its own for each shard");
    line.chosen = [flags] { return ablate(*flags); };
  });
}

void add_run(CommandLine& line) {
  auto flags = std::make_shared<RunFlags>();
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
  command.heading("What to run");
  auto* recipe =
      add_text(command, "--recipe", flags->recipe, "JSON file, or JSON: '{\"autocast\": \"bf16\"}'", "FILE|JSON");
  auto* rung = add_text(command, "--rung", flags->rung,
                        "a rung of --ladder: the name of its optimization, or \"start\"", "NAME");
  auto* ladder =
      add_text(command, "--ladder", flags->ladder, "where --rung is looked up (default: same as ablate)", "NAME|FILE");
  ladder->needs(rung);
  command.values[rung] = rung_names();
  command.values[ladder] = ladder_names();
  auto* plan = add_text(command, "--plan", flags->plan, "a study's plan.json", "FILE");
  plan->needs(add_text(command, "--run", flags->run_id, "a run of --plan, by its id", "ID")->needs(plan));
  recipe->excludes(rung)->excludes(plan);
  rung->excludes(plan);
  auto* from = add_text(command, "--from", flags->from,
                        "a record: run it again, on its data, and say whether the losses are the same", "RECORD");
  from->excludes(recipe)->excludes(rung)->excludes(plan);
  command.add_flag("--any-program", flags->any_program, "with --from: also if another program made the record")
      ->needs(from);
  add_wait(command, flags->wait);
  command.add_flag("--report-steps-to-parent", flags->report_steps)->group("");
  command.add_option("--time-against", flags->time_against)->group("");
  add_workload_flags(command, flags->workload, "gpt2-124m, or the ladder's",
                     "the ladder's, else 1 x 256 tokens, 5 + 10 steps");
  add_data_flags(command, flags->workload);
  add_deterministic_flag(command, flags->workload);
  command.heading("Where the results go");
  add_output(command, "--out", flags->record, "write the record here (default: nowhere)", "FILE",
             "--json prints the record");
  command.add_flag("-v,--verbose", flags->verbose, "list the proofs (default: only if one failed)");
  add_text(command, "--record", flags->record, "--out, as runners of every version call it", "FILE")->group("");
  command.add_flag("--json", flags->json, "print the record as JSON");
  for (const char* flag : workload_flags) plan->excludes(command.get_option(flag));  // the plan says these
  for (const char* flag : {"--deterministic", "--cold-cache"}) {
    plan->excludes(command.get_option(flag));
    from->excludes(command.get_option(flag));
  }
  plan->excludes(command.get_option("--repeat-to"));
  for (const char* flag : workload_flags) {  // the record says these, but not where the data is
    if (std::string_view(flag) != "--data" && std::string_view(flag) != "--vocab") {
      from->excludes(command.get_option(flag));
    }
  }
  command.callback([&line, flags] { line.chosen = [flags] { return run(*flags); }; });
}

void add_profile(CommandLine& line) {
  auto flags = std::make_shared<ProfileFlags>();
  Command& command = line.add(
      {.group = "Measure",
       .name = "profile",
       .summary = "where the time of a step goes, and why a rung is faster",
       .about =
           "Records what a step consists of (--trace), counts what the hardware did in it (--counters), or explains "
           "one rung against another (--diff). Tracing and counting slow a process down, so each is a process of its "
           "own, and its times are never a rung's.\n"
           "A trace leaves a folder with a summary (JSON) and a timeline that opens in Perfetto "
           "(https://ui.perfetto.dev); counters leave nothing unless --out names a file.",
       .examples = {{"ladder profile --trace --rung flash",
                     "Where the time of a step goes: phases, parts of the model, operations."},
                    {"ladder profile --trace --roofline --rung flash",
                     "The same, and how far each part is from what this machine can do."},
                    {"ladder profile --diff flash",
                     "That rung against the one before it: which operations went, came, shrank, grew."},
                    {"ladder profile --counters --rung flash", "Memory traffic and tensor pipes of a step, on a GPU."},
                    {"ladder profile --list-metrics --chip GH100", "What a GPU can count; needs no GPU."}},
       .common = {"--trace", "--diff", "--counters", "--roofline", "--rung", "--ladder", "--batch", "--context",
                  "--out", "--json"}});
  command.heading("What to find out (one of these)");
  auto* trace = command.add_flag("--trace", flags->trace, "what runs when: a summary, a timeline for Perfetto");
  auto* diff = command
                   .add_option("--diff", flags->diff,
                               "explain a rung against the one before it, two rungs, or two files of --trace")
                   ->type_name("RUNG|FILE [RUNG|FILE]")
                   ->expected(1, 2);
  auto* counters = command.add_flag("--counters", flags->counters,
                                    "hardware counters of a step: memory traffic, activity of SMs and tensor pipes");
  auto* list = command.add_flag("--list-metrics", flags->list_metrics,
                                "list what a chip can count; with --metrics: how many passes those need");
  trace->excludes(diff)->excludes(counters)->excludes(list);
  diff->excludes(counters)->excludes(list);
  counters->excludes(list);
  command.heading("Details");
  command.add_flag("--roofline", flags->roofline, "with --trace: how far each part is from what this machine can do")
      ->needs(trace);
  add_names(command, "--metrics", flags->metrics, "metrics to count (default: those that fit into one pass)");
  auto* passes = add_number(command, "--max-passes", flags->max_passes,
                            "most steps to count, one for each pass of the metrics (default 16)", 1, 1000);
  passes->needs(counters);
  add_text(command, "--chip", flags->chip, "GH100, GA100, ... (default: the GPU's)", "NAME")->needs(list);
  command.heading("Which step");
  auto* recipe =
      add_text(command, "--recipe", flags->run.recipe, "JSON file, or JSON: '{\"device\": \"cuda\"}'", "FILE|JSON");
  auto* rung = add_text(command, "--rung", flags->run.rung,
                        "a rung of --ladder: the name of its optimization, or \"start\"", "NAME");
  recipe->excludes(rung)->excludes(diff);
  rung->excludes(diff);
  add_text(command, "--plan", flags->run.plan, "", "FILE")->excludes(recipe)->excludes(rung)->group("");
  add_text(command, "--run", flags->run.run_id, "", "ID")->group("");
  auto* ladder = add_text(command, "--ladder", flags->run.ladder, "where rungs are looked up (default: same as ablate)",
                          "NAME|FILE");
  command.values[diff] = command.values[rung] = rung_names();
  command.values[ladder] = ladder_names();
  add_wait(command, flags->run.wait);
  add_workload_flags(command, flags->run.workload, "gpt2-124m, or the ladder's",
                     "the ladder's, else 1 x 256 tokens, 5 + 10 steps");
  add_deterministic_flag(command, flags->run.workload);
  command.heading("Where the results go");
  auto* out = add_output(command, "--out", flags->out,
                         "folder of a trace's files (default: profiles/NAME), or a file for the counters", "PATH");
  command.add_flag("--json", flags->json, "print the result as JSON");
  for (CLI::Option* option : {recipe, rung, out, ladder}) list->excludes(option);
  for (const char* flag : workload_flags) list->excludes(command.get_option(flag));
  list->excludes(command.get_option("--deterministic"));
  command.callback([&line, &command, flags, ladder, out] {
    if (ladder->count() > 0 && flags->run.rung.empty() && flags->diff.empty()) {
      throw std::invalid_argument("--ladder: needs --rung or --diff");
    }
    std::vector<CLI::Option*> of_steps{ladder, out, command.get_option("--deterministic")};
    for (const char* flag : workload_flags) of_steps.push_back(command.get_option(flag));
    for (const CLI::Option* option : of_steps) {
      if (!flags->compares_files() || option->count() == 0) continue;
      throw std::invalid_argument(option->get_name() +
                                  ": cannot be combined with two files of --diff, which are only compared");
    }
    line.chosen = [flags] { return profile(*flags); };
  });
}

}  // namespace

void add_measuring_commands(CommandLine& line) {
  add_doctor(line);
  add_ablate(line);
  add_run(line);
  add_profile(line);
}

}  // namespace ablations
