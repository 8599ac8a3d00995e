// What is said of a gate's verdict: its meaning, whether to trust it, and what its charts show.
#pragma once

#include "ablations/documents/gate.h"

namespace ablations {

GateWords words_of(const GateResult& result);

}  // namespace ablations
