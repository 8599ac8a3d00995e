// Rows in fp8, each with a scale of its own.
//
//     scale[n] = max over c of |x[n][c]| / 448;  copy[n][c] = x[n][c] / scale[n], in e4m3
//
// A block walks over rows, some at a time. A thread has 8 columns of each. The greatest of a row is known when all
// warps have left theirs in shared memory. Two places for it take turns, so a step of rows has one barrier. Column sums
// are added up in registers on the way, of what is written in bfloat16.
//
// Moves N C elements for each matrix that is read or written, and N C bytes for the copies.
//
// What nvcc 13.0 makes of it for sm_90, checked by tests/ablations/techniques/cuda/test_static.py. A line stands for
// the most registers and the fewest warps of a template's instances.
//     row_copies_kernel  56 registers, 1024 threads, 32 warps of 64, 16-byte loads
#include "ablations/techniques/fp8/row_copies.h"

#include "ablations/techniques/cuda/fp8_numbers.h"
#include "ablations/techniques/mlp/gelu.inc.h"

namespace kernels {
namespace {

constexpr int width = full_width<bf16>, most_threads = 1024, most_warps = most_threads / warp_size;
constexpr int rows_at_once = 2;
// What ptxas takes (above), and what a multiprocessor of sm_80 and of sm_90 has.
constexpr int64_t registers = 56, registers_of_multiprocessor = 65536, threads_of_multiprocessor = 2048;

// What each of them makes of 8 columns of a row, in bfloat16, and writes.
struct GeluForward {
  const bf16 *fc, *bias;
  bf16* hidden;
  int64_t C;

  __device__ Vector<bf16, width> operator()(int64_t row, int column) const {
    const Vector<bf16, width> x = load<width>(fc + row * C + column), b = load<width>(bias + column);
    Vector<bf16, width> y;
#pragma unroll
    for (int e = 0; e < width; ++e) y.values[e] = from_float<bf16>(gelu(to_float(x.values[e]) + to_float(b.values[e])));
    store(hidden + row * C + column, y);
    return y;
  }
};

struct GeluBackward {
  const bf16 *fc, *bias, *upstream;
  bf16* gradient;
  int64_t C;

  __device__ Vector<bf16, width> operator()(int64_t row, int column) const {
    const int64_t at = row * C + column;
    const Vector<bf16, width> x = load<width>(fc + at), b = load<width>(bias + column);
    Vector<bf16, width> y = load<width>(upstream + at);
#pragma unroll
    for (int e = 0; e < width; ++e) {
      const float slope = gelu_gradient(to_float(x.values[e]) + to_float(b.values[e]));
      y.values[e] = from_float<bf16>(to_float(y.values[e]) * slope);
    }
    store(gradient + at, y);
    return y;
  }
};

struct Joined {
  const bf16 *first, *second, *third;
  bf16* joined;
  int64_t C;  // of the joined matrix

  __device__ Vector<bf16, width> operator()(int64_t row, int column) const {
    const int part_columns = static_cast<int>(C / 3), part = column / part_columns;
    const bf16* from = part == 0 ? first : part == 1 ? second : third;
    const Vector<bf16, width> y = load<width>(from + row * part_columns + column - part * part_columns);
    store(joined + row * C + column, y);
    return y;
  }
};

template <class Make>
__global__ __launch_bounds__(most_threads) void row_copies_kernel(const Make make, const RowCopies copies,
                                                                  float* partials, int64_t N) {
  __shared__ Shared<float, 2 * rows_at_once * most_warps> greatest;
  const int C = static_cast<int>(make.C), column = static_cast<int>(threadIdx.x) * width;
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  const bool has_columns = column < C;
  float sums[width] = {};
  int place = 0;
  for (int64_t first = int64_t{blockIdx.x} * rows_at_once; first < N; first += int64_t{gridDim.x} * rows_at_once) {
    Vector<bf16, width> x[rows_at_once];
#pragma unroll
    for (int r = 0; r < rows_at_once; ++r) {
      float own = 0;
      if (has_columns && first + r < N) {
        x[r] = make(first + r, column);
#pragma unroll
        for (int e = 0; e < width; ++e) {
          own = fmaxf(own, fabsf(to_float(x[r].values[e])));
          sums[e] += to_float(x[r].values[e]);
        }
      }
      own = warp_max(own);
      if (lane() == 0) greatest[(place * rows_at_once + r) * most_warps + warp()] = own;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < rows_at_once; ++r) {
      const float of_warp =
          lane() < warps ? static_cast<float>(greatest[(place * rows_at_once + r) * most_warps + lane()]) : 0.0F;
      const float of_row = warp_max(of_warp);
      if (has_columns && first + r < N) {
        float values[width];
#pragma unroll
        for (int e = 0; e < width; ++e) values[e] = to_float(x[r].values[e]);
        store_8_fp8(copies.values + (first + r) * C + column, values, fp8_factor(of_row, largest_e4m3), __NV_E4M3);
        if (column == 0) copies.scales[first + r] = 1.0F / fp8_factor(of_row, largest_e4m3);
      }
    }
    place = 1 - place;
  }
  if (partials == nullptr || !has_columns) return;
#pragma unroll
  for (int e = 0; e < width; ++e) partials[int64_t{blockIdx.x} * C + column + e] = sums[e];
}

int threads_for(int64_t C) { return static_cast<int>(ceil_div(ceil_div(C, width), warp_size) * warp_size); }

template <class Make>
void run(const char* what, const Make& make, const RowCopies& copies, float* partials, int64_t N, cudaStream_t stream) {
  if (N == 0) return;
  const int threads = threads_for(make.C);
  if (make.C % width != 0 || threads > most_threads) throw std::invalid_argument("fp8 copies: rows of another length");
  launch(what, row_copies_kernel<Make>, grid_of(row_copies_strips(N, make.C)), threads, stream, make, copies, partials,
         N);
}

}  // namespace

// As many blocks as run at once.
int64_t row_copies_strips(int64_t N, int64_t C) {
  const int64_t threads = threads_for(C);
  const int64_t blocks =
      std::min(threads_of_multiprocessor / threads, registers_of_multiprocessor / (registers * threads));
  return std::min(ceil_div(N, rows_at_once), std::max<int64_t>(blocks, 1) * multiprocessors());
}

void gelu_forward_fp8(const bf16* fc, const bf16* bias, bf16* hidden, const RowCopies& copies, int64_t N, int64_t C,
                      cudaStream_t stream) {
  run("gelu_forward_fp8", GeluForward{fc, bias, hidden, C}, copies, nullptr, N, stream);
}

void gelu_backward_fp8(const GeluBackwardFp8& a, cudaStream_t stream) {
  run("gelu_backward_fp8", GeluBackward{a.fc, a.bias, a.upstream, a.gradient, a.C}, a.copies, a.partials, a.N, stream);
}

void join_fp8(const JoinFp8& a, cudaStream_t stream) {
  run("join_fp8", Joined{a.parts[0], a.parts[1], a.parts[2], a.joined, 3 * a.C}, a.copies, a.partials, a.N, stream);
}

}  // namespace kernels
