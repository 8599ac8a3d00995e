// One run: a recipe, a fresh process, clean timing, one record. Timing comes first; observing starts after the last
// timed step. During the timed steps only the machine is watched, from outside: a disturbed run is flagged.
#pragma once

#include "ablations/gpt2/options.h"
#include "results/record.h"

#include <cstdint>
#include <functional>
#include <string>

namespace ablations {

// Makes the run and returns its record. The status is "ok" even if a proof failed, because the study judges proofs. It
// is "failed" with kind "out_of_memory" if memory ran out. The message says what was asked for. on_step gets the number
// of steps done, warm-up and timed. Throws std::invalid_argument for sizes out of range, before anything is allocated.
Record execute_run(const RunOptions& options, const std::function<void(int64_t)>& on_step);

}  // namespace ablations
