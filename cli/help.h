// The text of `ladder --help`, `ladder COMMAND --help` and docs/cli.md, made from the commands (command.h). It is the
// same on every machine.
#pragma once

#include "cli/command.h"
#include "text/style.h"

#include <string>
#include <vector>

namespace cli {

// The help of a command; for line.app the program's. At most 80 columns wide, and 40 lines long unless `all`.
std::string help_text(const CommandLine& line, const Command& command, const Look& look, bool all);

// "ladder report STUDIES... [FLAGS]".
std::string usage(const Command& command);

// docs/cli.md.
std::string help_markdown(const CommandLine& line);

// {"-B", "--batch"}; empty for a positional one.
std::vector<std::string> names_of(const CLI::Option& option);
// "-B, --batch N"; a positional one in capitals, "SHARDS..." where it may be several.
std::string option_name(const CLI::Option& option);

}  // namespace cli
