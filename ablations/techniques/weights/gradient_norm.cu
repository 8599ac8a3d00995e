// The norm over all gradients, in two stages.
//
//     norm = sqrt(sum of g^2),  coefficient = min(1, max_norm / (norm + 1e-6))
//
// 1. A block sums the squares of a chunk. 2. One block adds up the chunks' sums, in a fixed order. Nothing is
// multiplied here: AdamW reads the coefficient (adamw.cu).
//
// Moves every gradient once: 4 bytes for each parameter.
//
// What nvcc 13.0 makes of it for sm_90, checked by tests/ablations/techniques/cuda/test_static.py. A line stands for
// the most registers and the fewest warps of a template's instances.
//     squares_kernel  32 registers, 256 threads, 64 warps of 64, 16-byte loads
//     norm_kernel     18 registers, 1024 threads, 64 warps of 64
#include "ablations/techniques/weights/gradient_norm.h"

#include "ablations/techniques/cuda/device.h"

namespace kernels {
namespace {

constexpr int threads = 256, norm_threads = 1024;

__global__ __launch_bounds__(threads, 8) void squares_kernel(const GradientNorm a) {
  constexpr int width = full_width<float>;
  const Chunk chunk = a.chunks[blockIdx.x];
  const ParameterTensor& tensor = a.tensors[chunk.tensor];
  const int64_t begin = chunk.index * chunk_elements, rest = tensor.size - begin;
  const int count = static_cast<int>(rest < chunk_elements ? rest : chunk_elements);
  const float* gradient = tensor.gradient + begin;
  const int thread = static_cast<int>(threadIdx.x), vectors = aligned(gradient) ? count / width : 0;
  float own = 0;
#pragma unroll 4
  for (int i = thread; i < vectors; i += threads) {
    const Vector<float, width> values = load<width>(gradient + i * width);
#pragma unroll
    for (int e = 0; e < width; ++e) own += values.values[e] * values.values[e];
  }
  for (int i = vectors * width + thread; i < count; i += threads) own += gradient[i] * gradient[i];
  const float sum = block_sum<threads>(own);
  if (thread == 0) a.workspace[blockIdx.x] = sum;
}

__global__ __launch_bounds__(norm_threads) void norm_kernel(const GradientNorm a) {
  float own = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < a.chunk_count; i += norm_threads) own += a.workspace[i];
  const float norm = sqrtf(block_sum<norm_threads>(own));
  if (threadIdx.x != 0) return;
  const float coefficient = a.max_norm / (norm + 1e-6F);
  *a.norm = norm;
  *a.coefficient = coefficient > 1.0F ? 1.0F : coefficient;  // fminf would take 1 for NaN
}

}  // namespace

void gradient_norm(const GradientNorm& a, cudaStream_t stream) {
  if (a.chunk_count > 0) launch("gradient_norm", squares_kernel, grid_of(a.chunk_count), threads, stream, a);
  launch("gradient_norm", norm_kernel, grid_of(1), norm_threads, stream, a);
}

}  // namespace kernels
