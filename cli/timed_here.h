// Which of the program's own operations pay on this machine (profile/own_operations.h). A process of its own times each
// pair, under the host memory and the threads of a run, and leaves its memory when it ends.
#pragma once

#include "ablations/profile/own_operations.h"
#include "ablations/run/options.h"

#include <string>

namespace ablations {

// At the size of the step: its batch is cut down to about a thousand tokens, after which rates no longer change. The
// CPU is locked while they live. Asking throws harness::Unfit where it is in use and not `wait`, or a process failed.
OwnOperations own_operations_here(const RunOptions& step, bool wait);

// What that process does: tells the times on file descriptor 3. `without`: a recipe as JSON.
void tell_times(const RunOptions& options, const std::string& without);

}  // namespace ablations
