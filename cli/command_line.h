// The command line: the one place for flags and their defaults. help.cpp lists the exit statuses.
#pragma once

namespace ablations {

int run_command_line(int argc, char** argv);

}  // namespace ablations
