#include "ablations/command_line/command_line.h"

#include "ablations/command_line/command.h"
#include "ablations/command_line/help.h"
#include "files/files.h"
#include "files/printable.h"
#include "harness/environment.h"

#include <fmt/format.h>
#include <torch/headeronly/version.h>

namespace ablations {

CommandLine::CommandLine()
    : app({.group = "",
           .name = "ladder",
           .summary = "which optimization bought what, on this machine, training GPT-2",
           .about =
               "Trains one fixed GPT-2, switches optimizations on one after another, and measures each in fresh "
               "processes. A number counts only where the optimization was seen to be on and the model still learns "
               "the same. Then it draws the ladder.",
           .examples = {{"ladder doctor", "What this machine can measure, and what to fix first."},
                        {"ladder ablate --ladder tiny", "The whole way in seconds, on a two-layer model."},
                        {"ladder ablate", "The ladder that fits this machine: a table, a report, charts."}}}) {
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("ladder {}, torch {}", harness::program_version(), TORCH_VERSION),
                       "the program's and PyTorch's version");
  app.get_version_ptr()->group(app.get_help_ptr()->get_group());
  add_measuring_commands(*this);
  add_reporting_commands(*this);
  add_comparing_commands(*this);
  add_training_commands(*this);
  add_help_commands(*this);
}

int run_command_line(int argc, char** argv) {
  CommandLine line;
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const auto named = line.app.get_subcommands();
    const auto* command = named.empty() ? &line.app : dynamic_cast<const Command*>(named.front());
    fmt::print("{}", help_text(line, *command, standard_output()));
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return line.app.exit(error);  // --version
    const bool unknown = argc > 1 && argv[1][0] != '-' && line.app.get_subcommands().empty();
    fmt::print(
        stderr, "ladder: {}\n`ladder --help` and `ladder COMMAND --help` say what there is.\n",
        files::printable(unknown ? fmt::format("there is no command {}", files::in_quotes(argv[1])) : error.what()));
    return 2;
  }
  return line.chosen();
}

}  // namespace ablations
