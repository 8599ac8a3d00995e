// `ladder profile`: its flags and its help. What it does is in cli/gpt2/profile.cpp.
#include "cli/command.h"
#include "cli/commands.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace cli {
namespace {

const Words profile_words{
    .group = "Measure",
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
    .common = {"--trace", "--diff", "--counters", "--roofline", "--rung", "--ladder", "--batch", "--context", "--out",
               "--json"}};

}  // namespace

void add_profile(CommandLine& line) {
  Command& command = line.add(profile_words);
  ProfileFlags& flags = command.runs(profile);
  command.heading("What to find out (one of these)");
  command.add_flag("--trace", flags.trace, "what runs when: a summary, a timeline for Perfetto");
  auto* diff = command
                   .add_option("--diff", flags.diff,
                               "explain a rung against the one before it, two rungs, or two files of --trace")
                   ->type_name("RUNG|FILE [RUNG|FILE]")
                   ->expected(1, 2);
  command.add_flag("--counters", flags.counters,
                   "hardware counters of a step: memory traffic, activity of SMs and tensor pipes");
  command.add_flag("--list-metrics", flags.list_metrics,
                   "list what a chip can count; with --metrics: how many passes those need");
  command.exclude("--trace", {"--diff", "--counters", "--list-metrics"});
  command.exclude("--diff", {"--counters", "--list-metrics"});
  command.exclude("--counters", {"--list-metrics"});
  command.heading("Details");
  command.add_flag("--roofline", flags.roofline, "with --trace: how far each part is from what this machine can do")
      ->needs("--trace");
  add_names(command, "--metrics", flags.metrics, "metrics to count (default: those that fit into one pass)");
  add_number(command, "--max-passes", flags.max_passes,
             "most steps to count, one for each pass of the metrics (default 16)", 1, 1000)
      ->needs("--counters");
  add_text(command, "--chip", flags.chip, "GH100, GA100, ... (default: the GPU's)", "NAME")->needs("--list-metrics");
  command.heading("Which step");
  add_text(command, "--recipe", flags.step.recipe, "JSON file, or JSON: '{\"device\": \"cuda\"}'", "FILE|JSON");
  add_rung_flag(command, flags.step.rung);
  add_text(command, "--plan", flags.step.plan, "", "FILE")->group("");
  add_text(command, "--run", flags.step.run_id, "", "ID")->group("");
  add_ladder_flag(command, flags.step.ladder, "where rungs are looked up (default: same as ablate)");
  command.values[diff] = rung_names();
  add_wait_flag(command, flags.step.wait);
  add_workload_flags(command, flags.step.workload, "gpt2-124m, or the ladder's",
                     "the ladder's, else 1 x 256 tokens, 5 + 10 steps");
  add_deterministic_flag(command, flags.step.workload);
  command.heading("Where the results go");
  add_output(command, "--out", flags.out,
             "folder of a trace's files (default: profiles/NAME), or a file for the counters", "PATH");
  command.add_flag("--json", flags.json, "print the result as JSON");
  command.exclude("--recipe", {"--rung", "--diff", "--plan"});
  command.exclude("--rung", {"--diff", "--plan"});
  std::vector<std::string> of_steps = workload_flags;
  of_steps.insert(of_steps.end(), {"--ladder", "--out", "--deterministic"});
  command.exclude("--list-metrics", of_steps);
  command.exclude("--list-metrics", {"--recipe", "--rung"});
  command.callback([&command, &flags, of_steps] {
    if (command.count("--ladder") > 0 && flags.step.rung.empty() && flags.diff.empty()) {
      throw std::invalid_argument("--ladder: needs --rung or --diff");
    }
    for (const std::string& flag : of_steps) {
      if (!flags.compares_files() || command.count(flag) == 0) continue;
      throw std::invalid_argument(flag + ": cannot be combined with two files of --diff, which are only compared");
    }
  });
}

}  // namespace cli
