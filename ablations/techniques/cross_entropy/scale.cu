// Multiplies by a number that the device holds: the gradient of the loss, which is 1 unless micro-steps share it.
//
// Moves 2 elements for each of `count`, or none where the factor is 1. A thread has one vector of 16 bytes.
//
// What nvcc 13.0 makes of it for sm_90, checked by tests/ablations/techniques/cuda/test_static.py. A line stands for
// the most registers and the fewest warps of a template's instances.
//     scale_kernel  26 registers, 256 threads, 64 warps of 64, 16-byte loads and stores
#include "ablations/techniques/cross_entropy/scale.h"

#include "ablations/techniques/cuda/device.h"

namespace kernels {
namespace {

constexpr int threads = 256;

template <class T, int Width>
__device__ void multiply(T* x, float factor) {
  Vector<T, Width> values = load<Width>(x);
#pragma unroll
  for (int e = 0; e < Width; ++e) values.values[e] = from_float<T>(to_float(values.values[e]) * factor);
  store(x, values);
}

template <class T, int Width>
__global__ __launch_bounds__(threads) void scale_kernel(T* x, int64_t count, const float* factor) {
  const float by = *factor;
  if (by == 1.0F) return;
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x, vectors = count / Width;
  if (i < vectors) multiply<T, Width>(x + i * Width, by);
  if (i < count % Width) multiply<T, 1>(x + vectors * Width + i, by);
}

}  // namespace

template <class T>
void scale(T* x, int64_t count, const float* factor, cudaStream_t stream) {
  if (count == 0) return;
  const int width = aligned(x) ? full_width<T> : 1;
  const auto kernel = width == 1 ? scale_kernel<T, 1> : scale_kernel<T, full_width<T>>;
  launch("scale", kernel, grid_of(ceil_div(count, int64_t{threads} * width)), threads, stream, x, count, factor);
}

template void scale<float>(float*, int64_t, const float*, cudaStream_t);
template void scale<bf16>(bf16*, int64_t, const float*, cudaStream_t);

}  // namespace kernels
