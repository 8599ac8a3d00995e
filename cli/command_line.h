// The command line: the one place for flags and their defaults. help.cpp lists the exit statuses.
#pragma once

#include <functional>

namespace ablations {

// `prepare` is called before the command that was chosen. Returns the exit status, as exit_status() does.
int run_command_line(
    int argc, char** argv, const std::function<void()>& prepare = [] {});

// The one handler of errors, around the whole of a program. Input that cannot be used ends with exit status 2,
// something that this machine cannot do with 3, everything else with 1.
int exit_status(const std::function<int()>& program);

}  // namespace ablations
