// Sums of columns: the gradient of a bias.
#pragma once

#include "ablations/techniques/cuda/types.h"

#include <cstdint>

namespace kernels {

template <class T>
struct ColumnSum {
  const T* values;  // (N, C)
  int64_t N, C;
  float* sums;      // (C)
  bool accumulate;  // adds to what is in `sums`
  float* workspace;
};

// T: float, bf16. The workspace is so many floats.
template <class T>
int64_t column_sum_workspace(int64_t N, int64_t C);
template <class T>
void column_sum(const ColumnSum<T>& arguments, cudaStream_t stream);

// The second of two stages, for callers that have made the first: sums[i] (C) of partials (outputs, strips, C). Null
// stands for an output that is not there, and for those after it.
struct FinishColumns {
  const float* partials;
  int64_t strips, C;
  float* sums[3];
  bool accumulate;
};
void finish_columns(const FinishColumns& arguments, cudaStream_t stream);

}  // namespace kernels
