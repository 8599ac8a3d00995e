// Sums of columns, in two stages.
//
//     sums[c] (+)= sum over n of values[n][c]
//
// A block sums 32 vectors of columns over a strip of rows. A warp takes every 8th row of it, in registers. The warps'
// sums meet in shared memory. Then the strips' sums are added up, in a fixed order.
//
// Moves N * C elements; the partial sums, strips * C floats, stay in L2.
//
// What nvcc 13.0 makes of it for sm_90, checked by tests/ablations/techniques/cuda/test_static.py. A line stands for
// the most registers and the fewest warps of a template's instances.
//     column_sum_kernel      32 registers, 256 threads, 64 warps of 64, 16-byte loads
//     finish_columns_kernel  24 registers, 1024 threads, 64 warps of 64
#include "ablations/techniques/products/column_sum.h"

#include "ablations/techniques/cuda/device.h"

namespace kernels {
namespace {

constexpr int threads = 256, warps = threads / warp_size;

template <class T, int Width>
__global__ __launch_bounds__(threads) void column_sum_kernel(const ColumnSum<T> a) {
  constexpr int tile = warp_size * Width;  // columns of a block
  const int64_t column = int64_t{blockIdx.x} * tile + lane() * Width;
  float own[Width] = {};
  if (column < a.C) {
    const int64_t step = int64_t{gridDim.y} * warps;
#pragma unroll 4
    for (int64_t row = int64_t{blockIdx.y} * warps + warp(); row < a.N; row += step) {
      const Vector<T, Width> values = load<Width>(a.values + row * a.C + column);
#pragma unroll
      for (int e = 0; e < Width; ++e) own[e] += to_float(values.values[e]);
    }
  }
  __shared__ Shared<float, warps * tile> of_warps;
#pragma unroll
  for (int e = 0; e < Width; ++e) of_warps[warp() * tile + lane() * Width + e] = own[e];
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t summed = int64_t{blockIdx.x} * tile + thread;
  if (thread >= tile || summed >= a.C) return;
  float sum = 0;
#pragma unroll
  for (int w = 0; w < warps; ++w) sum += of_warps[w * tile + thread];
  a.workspace[int64_t{blockIdx.y} * a.C + summed] = sum;
}

constexpr int finish_threads = 1024, finish_warps = finish_threads / warp_size;

// A block has 32 columns. Its warps read rows of them, and then sum a column each.
__global__ __launch_bounds__(finish_threads) void finish_columns_kernel(const FinishColumns a) {
  constexpr int pitch = warp_size + 1;  // a column of the array lies in 32 banks, too
  __shared__ Shared<float, finish_warps * pitch> sums;
  const float* partials = a.partials + int64_t{blockIdx.y} * a.strips * a.C;
  const int64_t first = int64_t{blockIdx.x} * warp_size;
  float own = 0;
  if (first + lane() < a.C) {
#pragma unroll 4
    for (int64_t strip = warp(); strip < a.strips; strip += finish_warps) own += partials[strip * a.C + first + lane()];
  }
  sums[warp() * pitch + lane()] = own;
  __syncthreads();
  const float sum = warp_sum(sums[lane() * pitch + warp()]);
  const int64_t column = first + warp();
  if (lane() != 0 || column >= a.C) return;
  // An index would copy the arguments to a stack.
  float* to = (blockIdx.y == 0 ? a.sums[0] : blockIdx.y == 1 ? a.sums[1] : a.sums[2]) + column;
  *to = a.accumulate ? *to + sum : sum;
}

template <class T>
int width_for(int64_t C) {
  return C % full_width<T> == 0 ? full_width<T> : 1;
}

// Strips of rows: blocks for some turns of the device, and no warp without a row.
int64_t strips_for(int64_t N, int64_t C, int width) {
  const int64_t tiles = ceil_div(C, int64_t{warp_size} * width);
  return std::clamp<int64_t>(8 * multiprocessors() / tiles, 1, std::min<int64_t>(ceil_div(N, warps), 65535));
}

}  // namespace

template <class T>
int64_t column_sum_workspace(int64_t N, int64_t C) {
  return N == 0 || C == 0 ? 0 : std::max(strips_for(N, C, 1), strips_for(N, C, width_for<T>(C))) * C;
}

template <class T>
void column_sum(const ColumnSum<T>& a, cudaStream_t stream) {
  if (a.C == 0) return;
  int64_t strips = 0;
  if (a.N > 0) {
    const int width = aligned(a.values) ? width_for<T>(a.C) : 1;
    strips = strips_for(a.N, a.C, width);
    const dim3 grid = grid_of(ceil_div(a.C, int64_t{warp_size} * width), strips);
    const auto kernel = width == 1 ? column_sum_kernel<T, 1> : column_sum_kernel<T, full_width<T>>;
    launch("column_sum", kernel, grid, threads, stream, a);
  }
  finish_columns({a.workspace, strips, a.C, {a.sums}, a.accumulate}, stream);
}

void finish_columns(const FinishColumns& a, cudaStream_t stream) {
  if (a.C == 0) return;
  const int outputs = a.sums[1] == nullptr ? 1 : a.sums[2] == nullptr ? 2 : 3;
  launch("finish_columns", finish_columns_kernel, grid_of(ceil_div(a.C, warp_size), outputs), finish_threads, stream,
         a);
}

template int64_t column_sum_workspace<float>(int64_t, int64_t);
template int64_t column_sum_workspace<bf16>(int64_t, int64_t);
template void column_sum<float>(const ColumnSum<float>&, cudaStream_t);
template void column_sum<bf16>(const ColumnSum<bf16>&, cudaStream_t);

}  // namespace kernels
