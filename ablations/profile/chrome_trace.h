// A trace as a timeline for Perfetto.
#pragma once

#include "harness/gpu/cupti.h"

#include <string>

namespace ablations {

// The whole timeline in the Trace Event Format (JSON object form). Events are complete, in microseconds from the
// beginning of the trace. Processes and threads are named, below a track of phases. Opens in ui.perfetto.dev.
std::string chrome_trace(const harness::Trace& trace);

}  // namespace ablations
