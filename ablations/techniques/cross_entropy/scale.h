// Multiplies by a number that the device holds.
#pragma once

#include "ablations/techniques/cuda/types.h"

#include <cstdint>

namespace kernels {

// x[i] = x[i] * *factor for `count` elements. Where the factor is 1, nothing of x is read. T: float, bf16.
template <class T>
void scale(T* x, int64_t count, const float* factor, cudaStream_t stream);

}  // namespace kernels
