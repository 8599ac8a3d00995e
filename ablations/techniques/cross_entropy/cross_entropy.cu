// Cross-entropy, loss and gradient in place.
//
//     loss = m + log z - logit[target],  m = max of logits,  z = sum over v < V of exp(logit[v] - m)
//     d logit[v] = scale * (exp(logit[v] - m) / z - [v == target])  for v < V, and 0 for padding
//
// A block has a row. Maximum and sum are found in one pass. A thread keeps both for what it has seen. When the maximum
// grows, it multiplies the sum by exp(old maximum - new maximum).
//
// Moves 2 N V elements: a row is read, read once more and written. The second reading goes backwards and comes from L2.
// The 264 rows that an H100 works on at a time are 27 MB where V is 50,304 and T is bf16.
//
// Where V is odd, a row begins at any multiple of an element's size. So elements before the first 16-byte boundary and
// after the last are read one by one.
//
// What nvcc 13.0 makes of it for sm_90, checked by tests/ablations/techniques/cuda/test_static.py. A line stands for
// the most registers and the fewest warps of a template's instances.
//     cross_entropy_kernel  32 registers, 1024 threads, 64 warps of 64, 16-byte loads and stores
//     mean_loss_kernel      18 registers, 1024 threads, 64 warps of 64
#include "ablations/techniques/cross_entropy/cross_entropy.h"

#include "ablations/techniques/cuda/device.h"

namespace kernels {
namespace {

constexpr int threads = 1024, warps = threads / warp_size;
constexpr float log2_e = 1.4426950408889634F;

// exp(difference of two logits). The difference is taken first: it is exact where the two are near each other.
__device__ float exp_of(float difference) { return approximate_exp2(difference * log2_e); }

// A NaN makes the sum NaN, and that stays.
struct OnlineSum {
  float max = -FLT_MAX;  // not -inf, whose difference to itself is NaN
  float sum = 0;         // of exp(x - max)

  template <int W>
  __device__ void add(const float (&x)[W]) {
    float greatest = max;
#pragma unroll
    for (int e = 0; e < W; ++e) greatest = fmaxf(greatest, x[e]);
    sum *= exp_of(max - greatest);
#pragma unroll
    for (int e = 0; e < W; ++e) sum += exp_of(x[e] - greatest);
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

template <class T>
__global__ __launch_bounds__(threads) void cross_entropy_kernel(const CrossEntropy<T> a) {
  constexpr int width = full_width<T>;
  const int thread = static_cast<int>(threadIdx.x), V = static_cast<int>(a.V);
  T* const row = a.logits + int64_t{blockIdx.x} * a.stride;

  // Before anything is overwritten: all threads read it, and the barrier comes later.
  const int64_t target = a.targets[blockIdx.x];
  const bool known = target >= 0 && target < V;
  const float target_logit = known ? to_float(row[target]) : NAN;

  const int past = static_cast<int>(reinterpret_cast<uintptr_t>(row) % 16 / sizeof(T));
  const int before = past == 0 ? 0 : width - past < V ? width - past : V;  // elements before the first boundary
  const int vectors = (V - before) / width, after = before + vectors * width;
  // This thread's one element of those that are in no vector, or V.
  const int single = thread < before ? thread : after + thread - before;

  OnlineSum own;
  for (int i = thread; i < vectors; i += threads) {
    const Vector<T, width> values = load<width>(row + before + i * width);
    float x[width];
#pragma unroll
    for (int e = 0; e < width; ++e) x[e] = to_float(values.values[e]);
    own.add(x);
  }
  if (single < V) {
    const float x[1] = {to_float(row[single])};
    own.add(x);
  }

  __shared__ Shared<float, warps> maxima, sums;
  own = over_warp(own);
  if (lane() == 0) {
    maxima[warp()] = own.max;
    sums[warp()] = own.sum;
  }
  __syncthreads();
  own.max = maxima[lane()];
  own.sum = sums[lane()];
  own = over_warp(own);

  if (thread == 0) a.losses[blockIdx.x] = own.max + logf(own.sum) - target_logit;

  const float scale = known ? a.scale : NAN;
  const float factor = scale / own.sum;
  const auto gradient = [&](T logit, int column) {
    const float softmax_part = exp_of(to_float(logit) - own.max) * factor;
    return from_float<T>(column == target ? softmax_part - scale : softmax_part);
  };
  if (single < V) row[single] = gradient(row[single], single);
  for (int i = thread + (vectors - 1 - thread) / threads * threads; i >= 0 && vectors > thread; i -= threads) {
    const int first = before + i * width;
    Vector<T, width> values = load<width>(row + first);
#pragma unroll
    for (int e = 0; e < width; ++e) values.values[e] = gradient(values.values[e], first + e);
    store(row + first, values);
  }
#pragma unroll 1
  for (int64_t column = V + thread; column < a.stride; column += threads) row[column] = from_float<T>(0.0F);
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
  launch("cross_entropy", cross_entropy_kernel<T>, grid_of(a.N), threads, stream, a);
}

void mean_loss(const float* losses, int64_t count, float* mean, cudaStream_t stream) {
  launch("mean_loss", mean_loss_kernel, grid_of(1), threads, stream, losses, count, mean);
}

template void cross_entropy<float>(const CrossEntropy<float>&, cudaStream_t);
template void cross_entropy<bf16>(const CrossEntropy<bf16>&, cudaStream_t);

}  // namespace kernels
