// The command line: the one place for flags and their defaults.
//
// Exit status: 0 fine; 1 a run or a verdict failed; 2 wrong usage or unreadable input; 3 the environment is unfit. 130
// after an interrupt.
#pragma once

namespace ablations {

int run_command_line(int argc, char** argv);

}  // namespace ablations
