// How a traced step's time is divided: what ran, what waited, and a step of another length divided as it was.
#pragma once

#include "results/trace.h"

#include <optional>
#include <string>

namespace study {

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

}  // namespace study
