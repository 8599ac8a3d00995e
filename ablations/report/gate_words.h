// What is said of a gate's verdict: its meaning, whether to trust it, what its charts show, and how to read them.
#pragma once

#include "ablations/documents/gate.h"

#include <string>

namespace ablations {

GateWords words_of(const GateResult& result);

// The verdict with its words, and those of its comparison, in place of those that it had.
GateResult with_words(GateResult result);

// Whether it has all words that a page places; an older program's verdict has not.
bool has_words(const GateResult& result);

// How far equal runs are apart, and what slowdowns are found in spite of it.
std::string noise_words(const Noise& noise);

}  // namespace ablations
