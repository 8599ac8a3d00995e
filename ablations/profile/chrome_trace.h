// A trace as a timeline for Perfetto.
#pragma once

#include "harness/gpu/trace.h"

#include <string>

namespace ablations {

// The whole timeline in the Trace Event Format (JSON object form): complete events in microseconds from the beginning
// of the trace, named processes and threads, a track of phases above them. Opens in ui.perfetto.dev.
std::string chrome_trace(const harness::Trace& trace);

}  // namespace ablations
