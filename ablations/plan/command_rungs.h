// The rungs of `ladder measure`: commands as they are typed. "+ --flag" and "+ NAME=value" add to the command before;
// "title: command" names it.
#pragma once

#include "results/plan.h"

#include <string>
#include <vector>

namespace ablations {

// The rungs of these commands, in their order. In a cumulative study each "+" adds to the rung before it; other
// commands are compared with the first. The other modes need one command, the start, and then only "+". Throws
// std::invalid_argument for an empty command, a "+" at the beginning, and what a mode cannot have.
std::vector<Rung> rungs_of_commands(const std::vector<std::string>& typed, Mode mode);

// A command with "+ PIECE" added to it: assignments are exported before it. The rest takes the place of "{flags}" and
// leaves it behind itself, or stands at its end. Throws std::invalid_argument where another program would get that.
std::string added_to(const std::string& command, const std::string& piece);

}  // namespace ablations
