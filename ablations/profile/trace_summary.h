// A trace as numbers for one step, and as a timeline for Perfetto.
#pragma once

#include "harness/json_file.h"
#include "harness/trace.h"

#include <cstdint>
#include <string>

namespace ablations {

struct TracedSteps {
  int64_t steps = 1;
  double wall_ms = 0;  // of one step, without tracing: median of some before it began
};

// Times in ms and counts, each of one step on average (results/schemas/trace.v1.json says what they mean). On a GPU the
// activities counted are the device's, on a CPU the outermost operations.
harness::Json summarize(const harness::Trace& trace, const TracedSteps& traced);

// The whole timeline in the Trace Event Format (JSON object form): complete events in microseconds from the beginning
// of the trace, named processes and threads, a track of phases above them. Opens in ui.perfetto.dev.
std::string chrome_trace(const harness::Trace& trace);

}  // namespace ablations
