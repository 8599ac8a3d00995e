// One traced run: a recipe in its own process, from which only the trace is used.
#pragma once

#include "ablations/run/options.h"
#include "results/trace.h"

#include <string>

namespace ablations {

struct TracedRun {
  TraceDocument document;
  std::string timeline;  // Trace Event Format, for Perfetto
};

// Steps under trace.
inline constexpr int64_t traced_steps = 5;

// Warm-up, timed steps for the clean time of one, then `traced_steps` steps under trace. `title` says what is traced:
// "+ flash attention". Throws as Gpt2Workload; std::runtime_error where the device cannot be traced.
TracedRun trace_run(const RunOptions& options, const std::string& title);

}  // namespace ablations
