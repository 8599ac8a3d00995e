// Which of the program's own operations pay on this machine (profile/own_operations.h). A child process times each
// pair, with a run's host memory and threads. Its memory is free again when it ends.
#pragma once

#include "ablations/gpt2/options.h"
#include "ablations/profile/own_operations.h"

#include <string>

namespace cli {

// Waits up to a minute while other work runs, for instance the build that made this program. With LADDER_BUSY set it
// does not.
void wait_for_quiet();

// Times are of the step's size, with a batch of about a thousand tokens. Larger batches have the same rates. The CPU is
// locked while the object lives. Asking throws harness::Unfit if the CPU is in use and not `wait`, or a process failed.
OwnOperations own_operations_here(const RunOptions& step, bool wait);

// The child process's part. Writes the times to file descriptor 3. `without`: a recipe as JSON.
void tell_times(const RunOptions& options, const std::string& without);

}  // namespace cli
