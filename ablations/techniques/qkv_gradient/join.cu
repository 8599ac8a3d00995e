// Three matrices side by side in one, and the sums of its columns, in two stages.
//
//     joined[n][i C + c] = parts[i][n][c]
//     sums[i C + c] (+)= sum over n of parts[i][n][c]
//
// 1. A block copies 32 vectors of columns over a strip of rows, and sums them on the way: a warp takes every 8th row of
//    it; the warps' sums meet in shared memory.
// 2. The strips' sums are added up in a fixed order (products/column_sum.h).
//
// Moves 2 * N * 3C elements; the partial sums, strips * 3C floats, stay in L2.
//
// What nvcc 13.0 makes of it for sm_90, checked by tests/ablations/techniques/cuda/test_static.py. A line stands for
// the most registers and the fewest warps of a template's instances.
//     join_kernel  40 registers, 256 threads, 48 warps of 64, 16-byte loads and stores
#include "ablations/techniques/qkv_gradient/join.h"

#include "ablations/techniques/cuda/device.h"
#include "ablations/techniques/products/column_sum.h"

namespace kernels {
namespace {

constexpr int threads = 256, warps = threads / warp_size;

template <class T, int Width>
__global__ __launch_bounds__(threads) void join_kernel(const Join<T> a) {
  constexpr int tile = warp_size * Width;  // columns of a block
  const int tiles = static_cast<int>((a.C + tile - 1) / tile), part = static_cast<int>(blockIdx.x) / tiles;
  const int64_t first = int64_t{static_cast<int>(blockIdx.x) % tiles} * tile, pitch = 3 * a.C;
  const int64_t column = first + lane() * Width;
  const T* from = part == 0 ? a.parts[0] : part == 1 ? a.parts[1] : a.parts[2];  // an index would need a stack
  float own[Width] = {};
  if (column < a.C) {
    const int64_t step = int64_t{gridDim.y} * warps;
#pragma unroll 4
    for (int64_t row = int64_t{blockIdx.y} * warps + warp(); row < a.N; row += step) {
      const Vector<T, Width> values = load<Width>(from + row * a.C + column);
      store(a.joined + row * pitch + part * a.C + column, values);
#pragma unroll
      for (int e = 0; e < Width; ++e) own[e] += to_float(values.values[e]);
    }
  }
  __shared__ Shared<float, warps * tile> of_warps;
#pragma unroll
  for (int e = 0; e < Width; ++e) of_warps[warp() * tile + lane() * Width + e] = own[e];
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= tile || first + thread >= a.C) return;
  float sum = 0;
#pragma unroll
  for (int w = 0; w < warps; ++w) sum += of_warps[w * tile + thread];
  a.workspace[int64_t{blockIdx.y} * pitch + part * a.C + first + thread] = sum;
}

template <class T>
int width_for(int64_t C) {
  return C % full_width<T> == 0 ? full_width<T> : 1;
}

// Strips of rows: blocks for some turns of the device, and no warp without a row.
int64_t strips_for(int64_t N, int64_t C, int width) {
  const int64_t tiles = 3 * ceil_div(C, int64_t{warp_size} * width);
  return std::clamp<int64_t>(8 * multiprocessors() / tiles, 1, std::min<int64_t>(ceil_div(N, warps), 65535));
}

}  // namespace

template <class T>
int64_t join_workspace(int64_t N, int64_t C) {
  return N == 0 || C == 0 ? 0 : std::max(strips_for(N, C, 1), strips_for(N, C, width_for<T>(C))) * 3 * C;
}

template <class T>
void join(const Join<T>& a, cudaStream_t stream) {
  if (a.C == 0) return;
  int64_t strips = 0;
  if (a.N > 0) {
    const int width = aligned(a.parts[0], a.parts[1], a.parts[2], a.joined) ? width_for<T>(a.C) : 1;
    strips = strips_for(a.N, a.C, width);
    const dim3 grid = grid_of(3 * ceil_div(a.C, int64_t{warp_size} * width), strips);
    launch("join", width == 1 ? join_kernel<T, 1> : join_kernel<T, full_width<T>>, grid, threads, stream, a);
  }
  finish_columns({a.workspace, strips, 3 * a.C, {a.sums, nullptr}, a.accumulate}, stream);
}

template int64_t join_workspace<float>(int64_t, int64_t);
template int64_t join_workspace<bf16>(int64_t, int64_t);
template void join<float>(const Join<float>&, cudaStream_t);
template void join<bf16>(const Join<bf16>&, cudaStream_t);

}  // namespace kernels
