// What a page and its charts are of: what was measured, where and when.
#pragma once

#include "ablations/documents/gate.h"
#include "ablations/documents/study.h"
#include "ablations/documents/trace.h"
#include "ablations/documents/training.h"
#include "ablations/documents/words.h"

#include <string>

namespace ablations {

// "Training GPT-2 124M on an AMD EPYC (2 threads)": the device's name without trademarks, and without words like "CPU"
// and "16-Core".
std::string subject_words(const std::string& model, const NamedDevice& device);

Origin origin_of(const Study& study);
Origin origin_of(const TraceDocument& trace);
Origin origin_of(const Training& training, const NamedDevice& device);
Origin origin_of(const GateResult& result);

// "Measured on AMD EPYC, 2 threads (CPU), 2026-11-22: gpt2-124m, 124,439,808 parameters, B=1 T=128, 128 tokens per
// step."
std::string measured_words(const Study& study);

}  // namespace ablations
