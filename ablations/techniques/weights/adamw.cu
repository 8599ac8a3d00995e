// AdamW over all parameters.
//
//     g = gradient * coefficient;  m += (1 - b1) (g - m);  v = b2 v + (1 - b2) g^2
//     w = w (1 - lr decay) - lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
//
// All of it in float32. A bf16 weight is joined with its remainder first, and split again afterwards (split_weight.h).
// So the bf16 copy that the next step's products read costs no pass of its own. Nor does the greatest number of a
// weight, which its fp8 copies need: a block writes that of its chunk.
//
// Moves 28 bytes for each parameter, with either type of weight: gradient 4, moments 8 + 8, weight 4 + 4. A thread has
// 8 parameters at a time: 8 loads of 16 bytes are under way.
//
// What nvcc 13.0 makes of it for sm_90, checked by tests/ablations/techniques/cuda/test_static.py. A line stands for
// the most registers and the fewest warps of a template's instances.
//     adamw_kernel  60 registers, 256 threads, 32 warps of 64, 16-byte loads and stores
#include "ablations/techniques/weights/adamw.h"

#include "ablations/techniques/cuda/fp8_numbers.h"
#include "ablations/techniques/weights/split_weight.h"

#include <cmath>

namespace kernels {
namespace {

constexpr int threads = 256;

struct Factors {
  const float *learning_rate, *step, *coefficient;
  float one_minus_beta1, beta2, one_minus_beta2, eps;
  float log_beta1, log_beta2;
};

// Of one step and one tensor.
struct Update {
  float coefficient, one_minus_beta1, beta2, one_minus_beta2, eps;
  float kept, step_size, inverse_root_correction;

  __device__ float operator()(float w, float gradient, float& m, float& v) const {
    const float g = gradient * coefficient;
    m += one_minus_beta1 * (g - m);
    v = beta2 * v + one_minus_beta2 * g * g;
    return w * kept - step_size * m / (sqrtf(v) * inverse_root_correction + eps);
  }
};

// Elements [first, first + W) of a tensor. `greatest`: of bf16 weights' magnitudes so far.
template <class T, int W>
__device__ void update(const ParameterTensor& tensor, int64_t first, const Update& rule, float& greatest) {
  T* const at = static_cast<T*>(tensor.weight) + first;
  const Vector<float, W> gradients = load<W>(tensor.gradient + first);
  Vector<float, W> m = load<W>(tensor.first_moment + first);
  Vector<float, W> v = load<W>(tensor.second_moment + first);
  Vector<T, W> weights = load<W>(at);
  [[maybe_unused]] Vector<int16_t, W> remainders;
  if constexpr (!std::is_same_v<T, float>) remainders = load<W>(tensor.remainder + first);
#pragma unroll
  for (int e = 0; e < W; ++e) {
    const auto updated = [&](float w) { return rule(w, gradients.values[e], m.values[e], v.values[e]); };
    if constexpr (std::is_same_v<T, float>) {
      weights.values[e] = updated(weights.values[e]);
    } else {
      const SplitWeight parts = split(updated(join({__bfloat16_as_ushort(weights.values[e]), remainders.values[e]})));
      weights.values[e] = __ushort_as_bfloat16(parts.hi);
      greatest = fmaxf(greatest, fabsf(to_float(weights.values[e])));
      remainders.values[e] = parts.lo;
    }
  }
  store(tensor.first_moment + first, m);
  store(tensor.second_moment + first, v);
  store(at, weights);
  if constexpr (!std::is_same_v<T, float>) store(tensor.remainder + first, remainders);
}

// 1 - beta^t. Where beta is near 1, a plain difference would lose digits.
__device__ float correction(float log_beta, float t) { return -expm1f(t * log_beta); }

template <class T>
__global__ __launch_bounds__(threads) void adamw_kernel(const ParameterTensor* tensors, const Chunk* chunks,
                                                        const Factors f) {
  constexpr int width = 8;
  const Chunk chunk = chunks[blockIdx.x];
  const ParameterTensor tensor = tensors[chunk.tensor];
  const int64_t begin = chunk.index * chunk_elements, rest = tensor.size - begin;
  const int count = static_cast<int>(rest < chunk_elements ? rest : chunk_elements);
  const float learning_rate = *f.learning_rate, t = *f.step;
  const Update rule{.coefficient = *f.coefficient,
                    .one_minus_beta1 = f.one_minus_beta1,
                    .beta2 = f.beta2,
                    .one_minus_beta2 = f.one_minus_beta2,
                    .eps = f.eps,
                    .kept = 1.0F - learning_rate * tensor.weight_decay,
                    .step_size = learning_rate / correction(f.log_beta1, t),
                    .inverse_root_correction = inverse_sqrt(correction(f.log_beta2, t))};
  const bool whole = aligned(static_cast<const T*>(tensor.weight), tensor.remainder, tensor.gradient,
                             tensor.first_moment, tensor.second_moment);
  const int thread = static_cast<int>(threadIdx.x), vectors = whole ? count / width : 0;
  float greatest = 0;
  for (int i = thread; i < vectors; i += threads) update<T, width>(tensor, begin + i * width, rule, greatest);
  for (int i = vectors * width + thread; i < count; i += threads) update<T, 1>(tensor, begin + i, rule, greatest);
  if (std::is_same_v<T, float> || tensor.maxima == nullptr) return;
  greatest = block_max<threads>(greatest);
  if (thread == 0) tensor.maxima[chunk.index] = greatest;
}

}  // namespace

template <class T>
void adamw(const AdamW& a, cudaStream_t stream) {
  if (a.chunk_count == 0) return;
  const Factors factors{.learning_rate = a.learning_rate,
                        .step = a.step,
                        .coefficient = a.coefficient,
                        .one_minus_beta1 = static_cast<float>(1.0 - a.beta1),
                        .beta2 = static_cast<float>(a.beta2),
                        .one_minus_beta2 = static_cast<float>(1.0 - a.beta2),
                        .eps = static_cast<float>(a.eps),
                        .log_beta1 = static_cast<float>(std::log(a.beta1)),
                        .log_beta2 = static_cast<float>(std::log(a.beta2))};
  launch("adamw", adamw_kernel<T>, grid_of(a.chunk_count), threads, stream, a.tensors, a.chunks, factors);
}

template void adamw<float>(const AdamW&, cudaStream_t);
template void adamw<bf16>(const AdamW&, cudaStream_t);

}  // namespace kernels
