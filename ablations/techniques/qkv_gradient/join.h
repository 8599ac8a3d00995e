// Three matrices side by side in one, and the sums of its columns.
#pragma once

#include "ablations/techniques/cuda/types.h"

#include <cstdint>

namespace kernels {

template <class T>
struct Join {
  const T* parts[3];  // (N, C) each
  int64_t N, C;
  T* joined;        // (N, 3C)
  float* sums;      // (3C)
  bool accumulate;  // adds to what is in `sums`
  float* workspace;
};

// T: float, bf16. The workspace is so many floats.
template <class T>
int64_t join_workspace(int64_t N, int64_t C);
template <class T>
void join(const Join<T>& arguments, cudaStream_t stream);

}  // namespace kernels
