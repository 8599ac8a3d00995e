// Sums of columns, in two stages.
//
//     sums[c] (+)= sum over n of values[n][c]
//
// Blocks sum strips of rows (column_strips.h). Then the strips' sums are added up, in a fixed order: any number of such
// sums in one launch, whose arguments list them.
//
// Moves N * C elements, then strips * C floats, which stay in L2 where they are added up at once.
//
// What nvcc 13.0 makes of it for sm_90, checked by tests/ablations/techniques/cuda/test_static.py. A line stands for
// the most registers and the fewest warps of a template's instances.
//     column_sum_kernel      32 registers, 256 threads, 64 warps of 64, 16-byte loads
//     finish_columns_kernel  26 registers, 1024 threads, 64 warps of 64
#include "ablations/techniques/products/column_sum.h"

#include "ablations/techniques/products/column_strips.h"

namespace kernels {
namespace {

template <class T, int Width>
__global__ __launch_bounds__(strip_threads) void column_sum_kernel(const ColumnSum<T> a) {
  sum_strip<Width>(a.N, a.C, int64_t{blockIdx.x} * warp_size * Width, a.partials + int64_t{blockIdx.y} * a.C,
                   [&](int64_t row, int64_t column) { return load<Width>(a.values + row * a.C + column); });
}

constexpr int finish_threads = 1024, finish_warps = finish_threads / warp_size;

struct FinishTable {
  FinishColumns rows[128];
};
static_assert(sizeof(FinishTable) <= 4096, "a kernel's arguments");

// A block has 32 columns. Its warps read rows of them, and then sum a column each.
__global__ __launch_bounds__(finish_threads) void finish_columns_kernel(const __grid_constant__ FinishTable table) {
  constexpr int pitch = warp_size + 1;  // a column of the array lies in 32 banks, too
  __shared__ Shared<float, finish_warps * pitch> sums;
  const FinishColumns& a = table.rows[blockIdx.y];
  const int first = static_cast<int>(blockIdx.x) * warp_size;
  if (first >= a.C) return;  // another one has more columns
  float own = 0;
  if (first + lane() < a.C) {
#pragma unroll 4
    for (int strip = warp(); strip < a.strips; strip += finish_warps)
      own += a.partials[int64_t{strip} * a.C + first + lane()];
  }
  sums[warp() * pitch + lane()] = own;
  __syncthreads();
  const float sum = warp_sum(sums[lane() * pitch + warp()]);
  const int column = first + warp();
  if (lane() != 0 || column >= a.C) return;
  a.sums[column] = a.accumulate ? a.sums[column] + sum : sum;
}

}  // namespace

// Blocks for some turns of the device, and no warp without a row.
template <class T>
int64_t column_strips(int64_t N, int64_t C) {
  const int64_t for_turns = std::max<int64_t>(8 * multiprocessors() / blocks_of(C, full_width<T>), 1);
  return std::min({for_turns, ceil_div(N, strip_warps), int64_t{65535}});
}

template <class T>
void column_sum(const ColumnSum<T>& a, cudaStream_t stream) {
  if (a.N == 0) return;
  const int width = vector_width<T>(a.C, a.values);
  const auto kernel = width == 1 ? column_sum_kernel<T, 1> : column_sum_kernel<T, full_width<T>>;
  launch("column_sum", kernel, grid_of(blocks_of(a.C, width), column_strips<T>(a.N, a.C)), strip_threads, stream, a);
}

void finish_columns(std::span<const FinishColumns> all, cudaStream_t stream) {
  while (!all.empty()) {
    FinishTable table{};
    const auto now = all.first(std::min(all.size(), std::size(table.rows)));
    std::ranges::copy(now, table.rows);
    const int C = std::ranges::max(now, {}, &FinishColumns::C).C;
    launch("finish_columns", finish_columns_kernel, grid_of(ceil_div(C, warp_size), std::ssize(now)), finish_threads,
           stream, table);
    all = all.subspan(now.size());
  }
}

template int64_t column_strips<float>(int64_t, int64_t);
template int64_t column_strips<bf16>(int64_t, int64_t);
template void column_sum<float>(const ColumnSum<float>&, cudaStream_t);
template void column_sum<bf16>(const ColumnSum<bf16>&, cudaStream_t);

}  // namespace kernels
