// Calls to CUDA in the words of a proof.
#pragma once

#include "ablations/documents/observations.h"
#include "harness/gpu/cuda_calls.h"

#include <string>

namespace ablations {

// Of one step; nullptr on a CPU and where CUPTI was not to be had.
const StepCalls* counted_calls(const Observations& observations);

// What was called, for harness/gpu/cuda_calls.h to tell launches from waits. Older records do not have it.
harness::CudaCalls by_name(const StepCalls& calls);

// "2 cudaFree, 1 cudaStreamSynchronize"
std::string in_words(const Counts& calls);

}  // namespace ablations
