// The commands that need PyTorch; only `ladder-gpt2` has them. The file of its name has a command's flags, its help and
// what it does.
#pragma once

#include "ablations/gpt2/reproduce.h"
#include "cli/command.h"
#include "cli/gate_run.h"
#include "cli/gpt2/techniques_page.h"

namespace cli {

void add_doctor(CommandLine& line);
void add_ablate(CommandLine& line);
void add_run(CommandLine& line);
void add_profile(CommandLine& line);
void add_train(CommandLine& line);
void add_sample(CommandLine& line);
void add_tokenize(CommandLine& line);
int gate_of_programs(const GateFlags& flags);

// The command line of `ladder-gpt2`, which has every command.
struct WholeCommandLine : CommandLine {
  WholeCommandLine()
      : CommandLine({}, {.gate_of_programs = cli::gate_of_programs,
                         .compute_again = computed_again,
                         .techniques_page = cli::techniques_page,
                         .technique_names = cli::technique_names,
                         .technique_help = cli::technique_help}) {
    add_commands_of_ladder(*this);
    for (auto* const add : {add_doctor, add_ablate, add_run, add_profile, add_train, add_sample, add_tokenize}) {
      add(*this);
    }
  }
};

}  // namespace cli
