// A trace as numbers for one step.
#pragma once

#include "harness/gpu/cupti.h"
#include "results/trace.h"

#include <optional>
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

struct Busy {
  std::optional<double> percent, idle_ms;  // none: slower_when_traced
};

// How much of a step something ran, and how much not. On a GPU it is a step without tracing, because kernels take no
// longer when traced. On a CPU it is the traced step, because there each operation takes longer. It is computed from a
// summary's other fields: earlier versions wrote a CPU's otherwise.
Busy busy_of(const TraceSummary& summary);

// A step of `clean_ms`, which nothing slowed, divided as the traced one is.
DividedStep divided(const TraceSummary& summary, double clean_ms);

// For a study's rung whose step takes `clean_ms`.
RungProfile profile_of(const TraceSummary& summary, double clean_ms);

// Why a GPU's busy share means nothing: its work took 2 % longer than a whole step without tracing, at other clocks,
// say. Empty where it does mean something.
std::string slower_when_traced(const TraceSummary& summary);

}  // namespace ablations
