// GELU, tanh form, and its gradient, for where a product's epilogue does not compute them.
#pragma once

#include "ablations/techniques/cuda/types.h"

#include <cstdint>

namespace kernels {

// T: float, bf16. `y` may be `x`.
template <class T>
void gelu_forward(const T* x, T* y, int64_t count, cudaStream_t stream);

// gradient = upstream * gelu'(x), and the sums of its columns over strips of rows.
template <class T>
struct GeluBackward {
  const T* x;         // (N, C)
  const T* upstream;  // (N, C)
  T* gradient;        // (N, C); may be `upstream`
  float* partials;    // (column_strips<T>(N, C), C), for finish_columns() (products/column_sum.h)
  int64_t N, C;
};
template <class T>
void gelu_backward(const GeluBackward<T>& arguments, cudaStream_t stream);

}  // namespace kernels
