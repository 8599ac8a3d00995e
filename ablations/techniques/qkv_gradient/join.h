// Three matrices side by side in one, and sums of its columns over strips of rows.
#pragma once

#include "ablations/techniques/cuda/types.h"

#include <cstdint>

namespace kernels {

template <class T>
struct Join {
  const T* parts[3];  // (N, C) each
  T* joined;          // (N, 3C)
  float* partials;    // (column_strips<T>(N, 3C), 3C), for finish_columns() (products/column_sum.h)
  int64_t N, C;
};

// T: float, bf16.
template <class T>
void join(const Join<T>& arguments, cudaStream_t stream);

}  // namespace kernels
