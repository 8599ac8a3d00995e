// fp8 copies of weights and of their transposes, in two launches for all of them.
//
// 1. A block writes a weight's scale as often as there are rows and columns; or a LayerNorm's scale.
// 2. A block writes a tile, 64 x 64, and its transpose by way of shared memory. A thread has 4 rows of 8 columns. So
//    four numbers of a column are one word there.
//
// Moves 4 bytes for each number: its scale is known, because AdamW has found the greatest (adamw.cu).
//
// What nvcc 13.0 makes of it for sm_90, checked by tests/ablations/techniques/cuda/test_static.py. A line stands for
// the most registers and the fewest warps of a template's instances.
//     fp8_scales_kernel     32 registers, 1024 threads, 64 warps of 64
//     weight_copies_kernel  52 registers, 128 threads, 36 warps of 64, 16-byte loads and stores
#include "ablations/techniques/fp8/weight_copies.h"

#include "ablations/techniques/cuda/fp8_numbers.h"

namespace kernels {
namespace {

constexpr int width = full_width<bf16>, tile = 64, rows_of_thread = 4;
constexpr int vectors = tile / width, threads = vectors * tile / rows_of_thread;  // a thread's: 8 columns, 4 rows
constexpr int scale_threads = 1024;

// A thread's first row and column in its tile.
__device__ int own_row() { return static_cast<int>(threadIdx.x) / vectors * rows_of_thread; }
__device__ int own_column() { return static_cast<int>(threadIdx.x) % vectors * width; }

// f(row of the weight, the thread's k-th, 8 numbers) for those of its rows that exist.
template <class F>
__device__ void for_own_vectors(const WeightCopies& w, const WeightTile& at, F f) {
  const int64_t column = at.column + own_column();
  Vector<bf16, width> read[rows_of_thread];
#pragma unroll
  for (int k = 0; k < rows_of_thread; ++k) {
    const int64_t row = at.row + own_row() + k;
    if (row < w.out && column < w.in) read[k] = load<width>(w.weight + row * w.in + column);
  }
#pragma unroll
  for (int k = 0; k < rows_of_thread; ++k) {
    const int64_t row = at.row + own_row() + k;
    if (row < w.out && column < w.in) f(row, k, read[k]);
  }
}

// The weights' blocks come first.
__global__ __launch_bounds__(scale_threads) void fp8_scales_kernel(const AllWeightCopies a) {
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t block = blockIdx.x;
  if (block < a.weight_count) {
    const WeightCopies w = a.weights[block];
    float own = 0;
    for (int64_t i = thread; i < w.maxima_count; i += scale_threads) own = fmaxf(own, w.maxima[i]);
    const float scale = 1.0F / fp8_factor(block_max<scale_threads>(own), largest_e4m3);
    for (int64_t i = thread; i < w.out; i += scale_threads) w.row_scales[i] = scale;
    for (int64_t i = thread; i < w.in; i += scale_threads) w.column_scales[i] = scale;
    return;
  }
  const NormScale n = a.norms[block - a.weight_count];
  __shared__ Shared<float, 2 * scale_threads / warp_size> greatest;
  float weight = 0, bias = 0;
  for (int64_t i = thread; i < n.C; i += scale_threads) {
    weight = fmaxf(weight, fabsf(n.weight[i]));
    bias = fmaxf(bias, fabsf(n.bias[i]));
  }
  weight = warp_max(weight);
  bias = warp_max(bias);
  if (lane() == 0) {
    greatest[warp()] = weight;
    greatest[scale_threads / warp_size + warp()] = bias;
  }
  __syncthreads();
  weight = warp_max(greatest[lane()]);
  bias = warp_max(greatest[scale_threads / warp_size + lane()]);
  const float bound = sqrtf(static_cast<float>(n.C - 1)) * weight + bias;
  if (thread == 0) *n.scale = 1.0F / fp8_factor(bound, largest_e4m3);
}

__global__ __launch_bounds__(threads) void weight_copies_kernel(const AllWeightCopies a) {
  constexpr int words = tile / 4, pitch = words + 1;  // of a column: so columns lie in different banks
  __shared__ Shared<uint32_t, tile * pitch> transposed;
  const WeightTile at = a.tiles[blockIdx.x];
  const WeightCopies w = a.weights[at.weight];
  const float factor = 1.0F / *w.row_scales;
  uint32_t own[width] = {};  // of each column the thread's four rows
  for_own_vectors(w, at, [&](int64_t row, int k, const Vector<bf16, width>& read) {
    uint32_t bits[2];
    float x[width];
#pragma unroll
    for (int e = 0; e < width; ++e) x[e] = to_float(read.values[e]);
    bits[0] = fp8_of_4(x, factor, __NV_E4M3);
    bits[1] = fp8_of_4(x + 4, factor, __NV_E4M3);
    *reinterpret_cast<uint2*>(w.rows + row * w.in + at.column + own_column()) = {bits[0], bits[1]};
#pragma unroll
    for (int e = 0; e < width; ++e) own[e] |= (bits[e / 4] >> 8 * (e % 4) & 0xffU) << 8 * k;
  });
#pragma unroll
  for (int e = 0; e < width; ++e) transposed[(own_column() + e) * pitch + own_row() / 4] = own[e];
  __syncthreads();
  // 16 rows of a column at a time.
  for (int i = static_cast<int>(threadIdx.x); i < tile * words / 4; i += threads) {
    const int column = i / (words / 4), first = i % (words / 4) * 4;
    if (at.column + column >= w.in || at.row + 4 * first >= w.out) continue;
    int4 bits;
    bits.x = static_cast<int>(static_cast<uint32_t>(transposed[column * pitch + first]));
    bits.y = static_cast<int>(static_cast<uint32_t>(transposed[column * pitch + first + 1]));
    bits.z = static_cast<int>(static_cast<uint32_t>(transposed[column * pitch + first + 2]));
    bits.w = static_cast<int>(static_cast<uint32_t>(transposed[column * pitch + first + 3]));
    store_16_bytes(reinterpret_cast<int4*>(w.columns + (at.column + column) * w.out + at.row + 4 * first), bits);
  }
}

}  // namespace

std::vector<WeightTile> weight_tiles(std::span<const WeightCopies> weights) {
  std::vector<WeightTile> tiles;
  for (size_t i = 0; i < weights.size(); ++i) {
    for (int64_t row = 0; row < weights[i].out; row += tile) {
      for (int64_t column = 0; column < weights[i].in; column += tile)
        tiles.push_back({static_cast<int32_t>(i), static_cast<int32_t>(row), static_cast<int32_t>(column)});
    }
  }
  return tiles;
}

void copy_weights(const AllWeightCopies& a, cudaStream_t stream) {
  launch("fp8_scales", fp8_scales_kernel, grid_of(a.weight_count + a.norm_count), scale_threads, stream, a);
  launch("weight_copies", weight_copies_kernel, grid_of(a.tile_count), threads, stream, a);
}

}  // namespace kernels
