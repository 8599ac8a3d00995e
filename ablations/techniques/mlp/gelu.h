// GELU, tanh form, and its gradient, for where a product's epilogue does not compute them.
#pragma once

#include "ablations/techniques/cuda/types.h"

#include <cstdint>

namespace kernels {

// T: float, bf16. `y` may be `x`.
template <class T>
void gelu_forward(const T* x, T* y, int64_t count, cudaStream_t stream);

// gradient = upstream * gelu'(x). `gradient` may be `upstream`.
template <class T>
void gelu_backward(const T* x, const T* upstream, T* gradient, int64_t count, cudaStream_t stream);

}  // namespace kernels
