// Calls to CUDA in the words of a proof.
#pragma once

#include "harness/gpu/cuda_calls.h"
#include "results/observations.h"

#include <string>

namespace ablations {

// The calls of one step; nullptr on a CPU and without CUPTI.
const StepCalls* counted_calls(const Observations& observations);

// The calls by name, from which harness/gpu/cuda_calls.h tells launches and waits apart. Older records lack them.
harness::CudaCalls by_name(const StepCalls& calls);

// "2 cudaFree, 1 cudaStreamSynchronize"
std::string in_words(const Counts& calls);

}  // namespace ablations
