// Three matrices side by side in one, and the sums of its columns, in two stages.
//
//     joined[n][i C + c] = parts[i][n][c]
//     sums[i C + c] (+)= sum over n of parts[i][n][c]
//
// 1. A block copies 32 vectors of columns over a strip of rows, and sums them on the way (products/column_strips.h).
// 2. finish_columns() adds up the strips' sums.
//
// Moves 2 * N * 3C elements.
//
// What nvcc 13.0 makes of it for sm_90, checked by tests/ablations/techniques/cuda/test_static.py. A line stands for
// the most registers and the fewest warps of a template's instances.
//     join_kernel  40 registers, 256 threads, 48 warps of 64, 16-byte loads and stores
#include "ablations/techniques/qkv_gradient/join.h"

#include "ablations/techniques/products/column_strips.h"
#include "ablations/techniques/products/column_sum.h"

namespace kernels {
namespace {

template <class T, int Width>
__global__ __launch_bounds__(strip_threads) void join_kernel(const Join<T> a) {
  constexpr int tile = warp_size * Width;  // columns of a block
  const int tiles = static_cast<int>((a.C + tile - 1) / tile), part = static_cast<int>(blockIdx.x) / tiles;
  const int64_t first = int64_t{static_cast<int>(blockIdx.x) % tiles} * tile, pitch = 3 * a.C;
  const T* from = part == 0 ? a.parts[0] : part == 1 ? a.parts[1] : a.parts[2];  // an index would need a stack
  sum_strip<Width>(a.N, a.C, first, a.partials + int64_t{blockIdx.y} * pitch + part * a.C,
                   [&](int64_t row, int64_t column) {
                     const Vector<T, Width> values = load<Width>(from + row * a.C + column);
                     store(a.joined + row * pitch + part * a.C + column, values);
                     return values;
                   });
}

}  // namespace

template <class T>
void join(const Join<T>& a, cudaStream_t stream) {
  if (a.N == 0) return;
  const int width = vector_width<T>(a.C, a.parts[0], a.parts[1], a.parts[2], a.joined);
  const auto kernel = width == 1 ? join_kernel<T, 1> : join_kernel<T, full_width<T>>;
  launch("join", kernel, grid_of(3 * blocks_of(a.C, width), column_strips<T>(a.N, 3 * a.C)), strip_threads, stream, a);
}

template void join<float>(const Join<float>&, cudaStream_t);
template void join<bf16>(const Join<bf16>&, cudaStream_t);

}  // namespace kernels
