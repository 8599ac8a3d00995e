// Sums of columns, which are gradients of biases, in two stages. A kernel sums strips of rows, often on the way through
// a matrix that it makes. finish_columns() adds up the strips.
#pragma once

#include "ablations/techniques/cuda/types.h"

#include <cstdint>
#include <span>

namespace kernels {

// How many strips kernels make of N rows of C numbers of type T: float, bf16.
template <class T>
int64_t column_strips(int64_t N, int64_t C);

// The first stage for a matrix that lies there.
template <class T>
struct ColumnSum {
  const T* values;  // (N, C)
  float* partials;  // (strips, C)
  int64_t N, C;
};
template <class T>
void column_sum(const ColumnSum<T>& arguments, cudaStream_t stream);

// The second stage: sums (C) <- over the strips of partials (strips, C).
struct FinishColumns {
  const float* partials;
  float* sums;
  int strips, C;
  bool accumulate;  // adds to what is in `sums`
};
// All of them, 128 in a launch. Their `sums` are different arrays.
void finish_columns(std::span<const FinishColumns> all, cudaStream_t stream);

}  // namespace kernels
