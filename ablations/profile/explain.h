// What changed between two traced recipes: which kernels (on a CPU: operations) went, came, shrank and grew, launches,
// busy and idle time, memory; as numbers and as one paragraph.
#pragma once

#include "harness/json_file.h"

#include <string>

namespace ablations {

// Two documents of kind "trace" (results/schemas/trace.v1.json). Throws std::invalid_argument where they cannot be
// compared: other devices, models or sizes.
//   {before, after: titles, totals: [{what, before, after, unit}], phases: [{phase, before_ms, after_ms, clear}],
//    names: [{name, change: "went" | "came" | "shrank" | "grew" | "unclear", before_ms, after_ms, before_count,
//             after_count}],
//    words}
// A time is told as changed only where no traced step of the one took as long as any of the other, and the words tell
// none where a study of the two found no clear change of the step (`step_changed` false): a trace is one process.
harness::Json explain(const harness::Json& before, const harness::Json& after, bool step_changed = true);

// The same for a terminal, at most 80 columns wide.
std::string explanation_table(const harness::Json& explanation);

// One trace for a terminal: totals, phases, parts, the names that took longest.
std::string trace_table(const harness::Json& trace);

}  // namespace ablations
