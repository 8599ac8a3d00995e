// `ladder doctor`: its flags and its help. What it does is in cli/gpt2/doctor.cpp.
#include "ablations/plan/ladder_file.h"
#include "cli/command.h"
#include "cli/commands.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace cli {

void add_doctor(CommandLine& line) {
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
  DoctorFlags& flags = command.runs(doctor);
  command.heading("What to print");
  command.add_flag("--peaks", flags.peaks,
                   "measure memory and matrix rates, and show them beside the maker's figures (some "
                   "seconds)");
  auto* plan = add_text(command, "--plan", flags.plan,
                        "the memory of this step: a rung of --ladder, or a recipe ('{\"autocast\": \"bf16\"}')",
                        "RUNG|FILE|JSON");
  command.add_flag("--json", flags.json, "print JSON, for programs");
  add_ladder_flag(command, flags.ladder, "show each rung of this ladder; with --plan: where its rung is looked up");
  command.exclude("--peaks", {"--plan", "--ladder"});
  command.heading("With --plan");
  add_bytes(command, "--memory", flags.memory,
            "a device with so much memory, as a GPU of compute capability 9.0 (default: this machine's)", 1000000,
            100000000000000)
      ->needs(plan);
  command.values[plan] = rung_names();
  add_size_flags(command, flags.workload, "gpt2-124m, or the ladder's", "the ladder's, else 1 x 256 tokens");
  for (const std::string& flag : size_flags) command.get_option(flag)->needs(plan);
}

}  // namespace cli
