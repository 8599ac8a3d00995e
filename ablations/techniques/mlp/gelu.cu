// GELU, tanh form, and its gradient.
//
//     gelu(x)  = x / 2 * (1 + tanh(u)) = x * s,  s = 1 / (1 + exp(-2 u)),  u = sqrt(2 / pi) * (x + 0.044715 x^3)
//     gelu'(x) = s + x * s * (1 - s) * 2 u',                               u' = sqrt(2 / pi) * (1 + 3 * 0.044715 x^2)
//
// The right-hand form has one exponential and one division, and no difference of near numbers.
//
// Forward it moves 2 elements for each of `count`. A thread has one vector of 16 bytes. Backward it moves 3 for each of
// N * C. It walks strips of rows, and sums the columns that it writes on the way (products/column_strips.h).
//
// What nvcc 13.0 makes of it for sm_90, checked by tests/ablations/techniques/cuda/test_static.py. A line stands for
// the most registers and the fewest warps of a template's instances.
//     gelu_forward_kernel   30 registers, 256 threads, 64 warps of 64, 16-byte loads and stores
//     gelu_backward_kernel  40 registers, 256 threads, 48 warps of 64, 16-byte loads and stores
#include "ablations/techniques/mlp/gelu.h"

#include "ablations/techniques/products/column_strips.h"
#include "ablations/techniques/products/column_sum.h"

namespace kernels {
namespace {

constexpr int threads = 256;
constexpr float twice_root_2_over_pi = 1.5957691216057308F, cubic = 0.044715F, log2_e = 1.4426950408889634F;

// s above.
__device__ float share(float x) {
  const float twice_u = twice_root_2_over_pi * (x + cubic * x * x * x);
  return __fdividef(1.0F, 1.0F + approximate_exp2(-log2_e * twice_u));
}

__device__ float gelu(float x) { return x * share(x); }

__device__ float gelu_gradient(float x) {
  // From 10 on the gradient is 1 in float32, and below -10 it is 0. Beyond, x^3 would become infinite and 0 * inf no
  // number. One that was none before stays so.
  const float clipped = x > 10.0F ? 10.0F : x < -10.0F ? -10.0F : x;
  const float s = share(clipped);
  const float twice_u_slope = twice_root_2_over_pi * (1.0F + 3.0F * cubic * clipped * clipped);
  return s + clipped * s * (1.0F - s) * twice_u_slope;
}

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
