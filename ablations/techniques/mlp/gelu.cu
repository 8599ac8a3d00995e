// GELU, tanh form, and its gradient (gelu.inc.h).
//
// Forward it moves 2 elements for each of `count`. A thread has one vector of 16 bytes. Backward it moves 3 for each of
// N * C. It walks strips of rows, and sums the columns that it writes on the way (products/column_strips.h).
//
// What nvcc 13.0 makes of it for sm_90, checked by tests/ablations/techniques/cuda/test_static.py. A line stands for
// the most registers and the fewest warps of a template's instances.
//     gelu_forward_kernel   30 registers, 256 threads, 64 warps of 64, 16-byte loads and stores
//     gelu_backward_kernel  40 registers, 256 threads, 48 warps of 64, 16-byte loads and stores
#include "ablations/techniques/mlp/gelu.h"

#include "ablations/techniques/mlp/gelu.inc.h"
#include "ablations/techniques/products/column_strips.h"
#include "ablations/techniques/products/column_sum.h"

namespace kernels {
namespace {

constexpr int threads = 256;

template <class T, int Width>
__device__ void write_gelu(const T* x, T* y) {
  Vector<T, Width> values = load<Width>(x);
#pragma unroll
  for (int e = 0; e < Width; ++e) values.values[e] = from_float<T>(gelu(to_float(values.values[e])));
  store(y, values);
}

template <class T, int Width>
__global__ __launch_bounds__(threads) void gelu_forward_kernel(const T* x, T* y, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x, vectors = count / Width;
  if (i < vectors) write_gelu<T, Width>(x + i * Width, y + i * Width);
  if (i < count % Width) write_gelu<T, 1>(x + vectors * Width + i, y + vectors * Width + i);
}

template <class T, int Width>
__global__ __launch_bounds__(strip_threads, 6) void gelu_backward_kernel(const GeluBackward<T> a) {
  sum_strip<Width>(a.N, a.C, int64_t{blockIdx.x} * warp_size * Width, a.partials + int64_t{blockIdx.y} * a.C,
                   [&](int64_t row, int64_t column) {
                     const int64_t first = row * a.C + column;
                     const Vector<T, Width> at = load<Width>(a.x + first);
                     Vector<T, Width> values = load<Width>(a.upstream + first);
#pragma unroll
                     for (int e = 0; e < Width; ++e)
                       values.values[e] =
                           from_float<T>(to_float(values.values[e]) * gelu_gradient(to_float(at.values[e])));
                     store(a.gradient + first, values);
                     return values;
                   });
}

}  // namespace

template <class T>
void gelu_forward(const T* x, T* y, int64_t count, cudaStream_t stream) {
  if (count == 0) return;
  const int width = aligned(x, y) ? full_width<T> : 1;
  const auto kernel = width == 1 ? gelu_forward_kernel<T, 1> : gelu_forward_kernel<T, full_width<T>>;
  launch("gelu_forward", kernel, grid_of(ceil_div(count, int64_t{threads} * width)), threads, stream, x, y, count);
}

template <class T>
void gelu_backward(const GeluBackward<T>& a, cudaStream_t stream) {
  if (a.N == 0) return;
  const int width = vector_width<T>(a.C, a.x, a.upstream, a.gradient);
  const auto kernel = width == 1 ? gelu_backward_kernel<T, 1> : gelu_backward_kernel<T, full_width<T>>;
  launch("gelu_backward", kernel, grid_of(blocks_of(a.C, width), column_strips<T>(a.N, a.C)), strip_threads, stream, a);
}

template void gelu_forward<float>(const float*, float*, int64_t, cudaStream_t);
template void gelu_forward<bf16>(const bf16*, bf16*, int64_t, cudaStream_t);
template void gelu_backward<float>(const GeluBackward<float>&, cudaStream_t);
template void gelu_backward<bf16>(const GeluBackward<bf16>&, cudaStream_t);

}  // namespace kernels
