// GELU, tanh form, and its gradient (gelu.inc.h).
//
// Moves 2 elements forward and 3 backward for each of `count`. A thread has one vector of 16 bytes.
//
// What nvcc 13.0 makes of it for sm_90, checked by tests/ablations/techniques/cuda/test_static.py. A line stands for
// the most registers and the fewest warps of a template's instances.
//     gelu_forward_kernel   30 registers, 256 threads, 64 warps of 64, 16-byte loads and stores
//     gelu_backward_kernel  32 registers, 256 threads, 64 warps of 64, 16-byte loads and stores
#include "ablations/techniques/mlp/gelu.h"

#include "ablations/techniques/cuda/device.h"
#include "ablations/techniques/mlp/gelu.inc.h"

namespace kernels {
namespace {

constexpr int threads = 256;

// f(first element, width) for each vector of the thread, and for an element of the rest that makes no vector.
template <int Width, class F>
__device__ void for_own_vectors(int64_t count, F f) {
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x, vectors = count / Width;
  if (i < vectors) f(i * Width, std::integral_constant<int, Width>());
  if (i < count % Width) f(vectors * Width + i, std::integral_constant<int, 1>());
}

template <class T, int Width>
__global__ __launch_bounds__(threads) void gelu_forward_kernel(const T* x, T* y, int64_t count) {
  for_own_vectors<Width>(count, [&](int64_t first, auto width) {
    constexpr int W = decltype(width)::value;
    Vector<T, W> values = load<W>(x + first);
#pragma unroll
    for (int e = 0; e < W; ++e) values.values[e] = from_float<T>(gelu(to_float(values.values[e])));
    store(y + first, values);
  });
}

template <class T, int Width>
__global__ __launch_bounds__(threads) void gelu_backward_kernel(const T* x, const T* upstream, T* gradient,
                                                                int64_t count) {
  for_own_vectors<Width>(count, [&](int64_t first, auto width) {
    constexpr int W = decltype(width)::value;
    const Vector<T, W> at = load<W>(x + first);
    Vector<T, W> values = load<W>(upstream + first);
#pragma unroll
    for (int e = 0; e < W; ++e)
      values.values[e] = from_float<T>(to_float(values.values[e]) * gelu_gradient(to_float(at.values[e])));
    store(gradient + first, values);
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
void gelu_backward(const T* x, const T* upstream, T* gradient, int64_t count, cudaStream_t stream) {
  if (count == 0) return;
  const int width = aligned(x, upstream, gradient) ? full_width<T> : 1;
  const auto kernel = width == 1 ? gelu_backward_kernel<T, 1> : gelu_backward_kernel<T, full_width<T>>;
  launch("gelu_backward", kernel, grid_of(ceil_div(count, int64_t{threads} * width)), threads, stream, x, upstream,
         gradient, count);
}

template void gelu_forward<float>(const float*, float*, int64_t, cudaStream_t);
template void gelu_forward<bf16>(const bf16*, bf16*, int64_t, cudaStream_t);
template void gelu_backward<float>(const float*, const float*, float*, int64_t, cudaStream_t);
template void gelu_backward<bf16>(const bf16*, const bf16*, bf16*, int64_t, cudaStream_t);

}  // namespace kernels
