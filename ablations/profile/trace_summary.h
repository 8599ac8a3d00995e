// A trace as numbers for one step.
#pragma once

#include "harness/gpu/cupti.h"
#include "results/trace.h"

#include <string>
#include <vector>

namespace ablations {

// Whether anything in it ran on a GPU.
bool on_gpu(const harness::Trace& trace);

// What its steps are made of: the device's activities, or a CPU's operations. By their beginning.
std::vector<const harness::Activity*> work_of(const harness::Trace& trace);

// Times in ms and counts of one of the traced steps (results/schemas/trace.v1.json explains them). It is the step of
// median length, so what disturbed another is not in it. Each time has the least and the most of all steps. `wall_ms`:
// what a step takes without tracing. On a GPU the device's activities are counted, on a CPU the outermost operations.
// Throws std::invalid_argument for a trace of no steps.
TraceSummary summarize(const harness::Trace& trace, double wall_ms);

}  // namespace ablations
