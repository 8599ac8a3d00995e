// Cross-entropy, loss and gradient in place.
//
//     loss = m + log z - logit[target],  m = max of logits,  z = sum over v < V of exp(logit[v] - m)
//     d logit[v] = scale * (exp(logit[v] - m) / z - [v == target])  for v < V, and 0 for padding
//
// A block has a row. Maximum and sum are found in one pass. A thread keeps both for what it has seen. When the maximum
// grows, it multiplies the sum by exp(old maximum - new maximum).
//
// Moves 2 N V elements, and N V bytes if a copy in fp8 is wanted: a row is read and written. In between it stays in
// shared memory if two blocks of a multiprocessor have room for theirs: one reads while the other writes. At V = 50,304
// bf16 rows have it on an H100. Other rows are read once more, backwards, so that much of it comes from L2.
//
// Where V is odd, a row begins at any multiple of an element's size. So elements before the first 16-byte boundary and
// after the last are read one by one.
//
// What nvcc 13.0 makes of it for sm_90, checked by tests/ablations/techniques/cuda/test_static.py. A line stands for
// the most registers and the fewest warps of a template's instances. Bytes are those of a row of 50,257 bf16.
//     cross_entropy_kernel<512>   48 registers, 512 threads, 32 warps of 64, 100512 bytes, 16-byte loads and stores
//     cross_entropy_kernel<1024>  32 registers, 1024 threads, 64 warps of 64, 16-byte loads and stores
//     mean_loss_kernel            18 registers, 1024 threads, 64 warps of 64
#include "ablations/techniques/cross_entropy/cross_entropy.h"

#include "ablations/techniques/cuda/fp8_numbers.h"

namespace kernels {
namespace {

constexpr int threads = 1024, holding_threads = 512;  // the latter where the row stays in shared memory
constexpr int blocks = 2;                             // of a multiprocessor
constexpr float log2_e = 1.4426950408889634F;

// exp(difference of two logits). The difference is taken first: it is exact where the two are near each other.
__device__ float exp_of(float difference) { return approximate_exp2(difference * log2_e); }

// A NaN makes the sum NaN, and that stays.
struct OnlineSum {
  float max = -FLT_MAX;  // not -inf, whose difference to itself is NaN
  float sum = 0;         // of exp(x - max)

  template <int W>
  __device__ void add(const float (&x)[W]) {
    float maxima[2] = {max, max}, sums[2] = {};  // two chains: one is slow
#pragma unroll
    for (int e = 0; e < W; ++e) maxima[e % 2] = fmaxf(maxima[e % 2], x[e]);
    const float greatest = fmaxf(maxima[0], maxima[1]);
#pragma unroll
    for (int e = 0; e < W; ++e) sums[e % 2] += exp_of(x[e] - greatest);
    sum = sum * exp_of(max - greatest) + (sums[0] + sums[1]);
    max = greatest;
  }

  __device__ void add(const OnlineSum& other) {
    const float greatest = fmaxf(max, other.max);
    sum = sum * exp_of(max - greatest) + other.sum * exp_of(other.max - greatest);
    max = greatest;
  }
};

// Every lane gets the warp's.
__device__ OnlineSum over_warp(OnlineSum own) {
#pragma unroll
  for (int distance = warp_size / 2; distance > 0; distance /= 2) {
    OnlineSum other;
    other.max = __shfl_xor_sync(0xffffffffU, own.max, distance);
    other.sum = __shfl_xor_sync(0xffffffffU, own.sum, distance);
    own.add(other);
  }
  return own;
}

__device__ inline uint8_t e5m2_of(float x) { return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2); }

template <class T, int Threads>
__global__ __launch_bounds__(Threads, blocks) void cross_entropy_kernel(const CrossEntropy<T> a) {
  constexpr bool holds = Threads == holding_threads;
  constexpr int width = full_width<T>, warps = Threads / warp_size;
  const int thread = static_cast<int>(threadIdx.x), V = static_cast<int>(a.V);
  T* const row = a.logits + int64_t{blockIdx.x} * a.stride;
  const int64_t target = a.targets[blockIdx.x];
  const bool known = target >= 0 && target < V;

  const int past = static_cast<int>(reinterpret_cast<uintptr_t>(row) % 16 / sizeof(T));
  const int before = past == 0 ? 0 : width - past < V ? width - past : V;  // elements before the first boundary
  const int vectors = (V - before) / width, after = before + vectors * width;
  // This thread's one element of those that are in no vector, or V.
  const int single = thread < before ? thread : after + thread - before;
  const T alone = single < V ? row[single] : from_float<T>(0.0F);

  const DynamicShared<T> held(0);
  OnlineSum own;
  constexpr int at_once = holds ? 4 : 1;  // loads of a thread
  for (int begin = thread; begin < vectors; begin += at_once * Threads) {
    Vector<T, width> values[at_once];
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      if (const int i = begin + k * Threads; i < vectors) values[k] = load<width>(row + before + i * width);
    }
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      const int i = begin + k * Threads;
      if (i >= vectors) break;
      if constexpr (holds) store(held, i * width, values[k]);
      float x[width];
#pragma unroll
      for (int e = 0; e < width; ++e) x[e] = to_float(values[k].values[e]);
      own.add(x);
    }
  }
  if (single < V) {
    const float x[1] = {to_float(alone)};
    own.add(x);
  }
  // Before anything is overwritten: all threads read it, and the barrier comes later.
  const float target_logit = known ? to_float(row[target]) : NAN;

  __shared__ Shared<float, warps> maxima, sums;
  own = over_warp(own);
  if (lane() == 0) {
    maxima[warp()] = own.max;
    sums[warp()] = own.sum;
  }
  __syncthreads();
  own = OnlineSum();
  if (lane() < warps) {
    own.max = maxima[lane()];
    own.sum = sums[lane()];
  }
  own = over_warp(own);

  if (thread == 0) a.losses[blockIdx.x] = own.max + logf(own.sum) - target_logit;

  const float scale = known ? a.scale : NAN;
  const float factor = scale / own.sum;
  const auto softmax_part = [&](float logit) { return exp_of(logit - own.max) * factor; };
  uint8_t* const copy = a.copy == nullptr ? nullptr : a.copy + int64_t{blockIdx.x} * a.stride;
  const float to_copy = known ? largest_e5m2 / a.scale : 0.0F;
  if (copy != nullptr && blockIdx.x == 0 && thread == 0) *a.copy_scale = a.scale / largest_e5m2;
  if (single < V) {
    const float part = softmax_part(to_float(alone));
    row[single] = from_float<T>(part);
    if (copy != nullptr) copy[single] = e5m2_of(part * to_copy);
  }
  for (int i = thread + (vectors - 1 - thread) / Threads * Threads; i >= 0 && vectors > thread; i -= Threads) {
    Vector<T, width> values;
    if constexpr (holds) {
      values = load<width>(held, i * width);
    } else {
      values = load<width>(row + before + i * width);
    }
    float parts[width];
#pragma unroll
    for (int e = 0; e < width; ++e) {
      parts[e] = softmax_part(to_float(values.values[e]));
      values.values[e] = from_float<T>(parts[e]);
    }
    store(row + before + i * width, values);
    if constexpr (width == 8) {
      if (copy != nullptr) store_8_fp8(copy + i * width, parts, to_copy, __NV_E5M2);
    }
  }
#pragma unroll 1
  for (int64_t column = V + thread; column < a.stride; column += Threads) {
    row[column] = from_float<T>(0.0F);
    if (copy != nullptr) copy[column] = 0;
  }

  // The target's at last, over what stands there as in any other column.
  __syncthreads();
  if (thread == 0 && known) {
    const float gradient = softmax_part(target_logit) - scale;
    row[target] = from_float<T>(gradient);
    if (copy != nullptr) copy[target] = e5m2_of(gradient * to_copy);
  }
}

__global__ __launch_bounds__(threads) void mean_loss_kernel(const float* losses, int64_t count, float* mean) {
  float own = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < count; i += threads) own += losses[i];
  const float sum = block_sum<threads>(own);
  if (threadIdx.x == 0) *mean = sum / static_cast<float>(count);
}

}  // namespace

template <class T>
void cross_entropy(const CrossEntropy<T>& a, cudaStream_t stream) {
  if (a.N == 0) return;
  if (a.copy != nullptr && (full_width<T> != 8 || !aligned(a.logits) || a.stride % 16 != 0)) {
    throw std::invalid_argument("cross_entropy: no fp8 copies of such logits");
  }
  const int64_t row_bytes = a.V / full_width<T> * 16;  // without the elements beside its vectors
  constexpr int64_t others = 2 * sizeof(float) * holding_threads / warp_size;
  if (blocks_that_share(row_bytes + others) >= blocks) {
    launch("cross_entropy", cross_entropy_kernel<T, holding_threads>, grid_of(a.N), {holding_threads, row_bytes},
           stream, a);
  } else {
    launch("cross_entropy", cross_entropy_kernel<T, threads>, grid_of(a.N), threads, stream, a);
  }
}

void mean_loss(const float* losses, int64_t count, float* mean, cudaStream_t stream) {
  launch("mean_loss", mean_loss_kernel, grid_of(1), threads, stream, losses, count, mean);
}

template void cross_entropy<float>(const CrossEntropy<float>&, cudaStream_t);
template void cross_entropy<bf16>(const CrossEntropy<bf16>&, cudaStream_t);

}  // namespace kernels
