// One run: a recipe, a fresh process, clean timing, one record. Timing comes first; observing starts after the last
// timed step. During the timed steps only the machine is watched, from outside: a disturbed run is flagged.
#pragma once

#include "ablations/run/options.h"
#include "results/record.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace ablations {

// Throws std::invalid_argument for sizes out of range, before anything is allocated. Returns a record with status "ok",
// also where a proof failed: judging is the study's; or one with status "failed" and failure kind "out_of_memory",
// whose message says what was asked for and what was there. on_step: how many steps are done, of warm-up and timed ones
// together.
Record execute_run(const RunOptions& options, const std::function<void(int64_t)>& on_step);

// Of the timed steps, in ms. Throws std::invalid_argument for none.
RunSummary summary_of(std::span<const double> timed_ms, int64_t tokens_per_step);

// A record for a run that left none. It began at `started` (UTC, ISO 8601) and took `seconds`.
Record failed_record(const std::string& id, FailureKind kind, const std::string& message, const std::string& started,
                     double seconds);

}  // namespace ablations
