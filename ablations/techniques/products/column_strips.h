// Sums of columns over strips of rows, which a kernel makes on its way through a matrix.
//
// A block has 32 vectors of columns of a strip. A warp takes every 8th row of it, and sums in registers. The warps'
// sums meet in shared memory. finish_columns() (column_sum.h) adds up the strips.
#pragma once

#include "ablations/techniques/cuda/device.h"

namespace kernels {

constexpr int strip_threads = 256, strip_warps = strip_threads / warp_size;

// Elements of a vector in rows of C numbers that begin at these addresses.
template <class T, class... P>
int vector_width(int64_t C, const P*... rows) {
  return C % full_width<T> == 0 && aligned(rows...) ? full_width<T> : 1;
}

// Blocks that C columns take side by side.
inline int64_t blocks_of(int64_t C, int width) { return ceil_div(C, int64_t{warp_size} * width); }

// Calls vector_of(row, column) for the rows of the block's strip, and writes the sums of these vectors' elements.
// `first`: the block's first column, of C. `sums` (C): those of the block's strip.
template <int Width, class VectorOf>
__device__ void sum_strip(int64_t N, int64_t C, int64_t first, float* sums, VectorOf vector_of) {
  constexpr int tile = warp_size * Width;  // columns of a block
  const int64_t column = first + lane() * Width;
  float own[Width] = {};
  if (column < C) {
    const int64_t step = int64_t{gridDim.y} * strip_warps;
#pragma unroll 4
    for (int64_t row = int64_t{blockIdx.y} * strip_warps + warp(); row < N; row += step) {
      const auto vector = vector_of(row, column);
#pragma unroll
      for (int e = 0; e < Width; ++e) own[e] += to_float(vector.values[e]);
    }
  }
  __shared__ Shared<float, strip_warps * tile> of_warps;
#pragma unroll
  for (int e = 0; e < Width; ++e) of_warps[warp() * tile + lane() * Width + e] = own[e];
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= tile || first + thread >= C) return;
  float sum = 0;
#pragma unroll
  for (int w = 0; w < strip_warps; ++w) sum += of_warps[w * tile + thread];
  sums[first + thread] = sum;
}

}  // namespace kernels
