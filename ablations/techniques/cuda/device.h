// What the kernels are written in: 16-byte vectors, sums of a warp and of a block, shared memory, the launch.
//
// A .cu file here is compiled twice: by nvcc for a GPU, and by g++ for the tests. The tests run its threads on the CPU
// (cpu_device.h). What differs between the two is in this header and in that one, not in the kernels. The kernels'
// rules:
//   - A kernel is started by launch().
//   - Shared memory is a Shared<T, N>, or a DynamicShared<T> where launch() is told how much. What another thread wrote
//     is read only after a __syncthreads().
//   - Every thread of the block reaches __syncthreads(), every lane of the warp __shfl_xor_sync().
//   - Sums have an order that depends on nothing but sizes and the device's model: no atomics.
#pragma once

#include "ablations/techniques/cuda/types.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "cpu_device.h"  // tests/ablations/techniques/cuda
#endif
#include <cuda_bf16.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace kernels {

constexpr int warp_size = 32;

__device__ inline int lane() { return static_cast<int>(threadIdx.x) % warp_size; }
__device__ inline int warp() { return static_cast<int>(threadIdx.x) / warp_size; }

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(bf16 x) { return __bfloat162float(x); }

template <class T>
__device__ T from_float(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else {
    return __float2bfloat16_rn(x);
  }
}

// W elements side by side: 16 bytes, 32 (float beside 8 of bf16), or a single element where rows do not divide.
template <class T, int W>
struct Vector {
  T values[W];
};

// Elements of 16 bytes.
template <class T>
constexpr int full_width = 16 / static_cast<int>(sizeof(T));

template <class... P>
__host__ __device__ bool aligned(const P*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

#ifdef __CUDACC__
// An assignment of an int4 would do, but the compiler may take it apart. Nor does it know that a pointer from a table
// points to global memory.
__device__ inline int4 load_16_bytes(const int4* from) {
  int4 bits;
  asm volatile("ld.global.v4.s32 {%0, %1, %2, %3}, [%4];"
               : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
               : "l"(__cvta_generic_to_global(from))
               : "memory");
  return bits;
}

__device__ inline void store_16_bytes(int4* to, int4 bits) {
  asm volatile("st.global.v4.s32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(bits.x), "r"(bits.y),
               "r"(bits.z), "r"(bits.w)
               : "memory");
}

// 2^x with an error of 2^-22 or so; 0 for what is below the least normal number.
__device__ inline float approximate_exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

template <class T, int N>
struct Shared {
  T values[N];
  __device__ T& operator[](int i) { return values[i]; }
};

// The block's dynamic shared memory from byte `begin` on.
template <class T>
class DynamicShared {
 public:
  __device__ explicit DynamicShared(int begin) {
    extern __shared__ int4 dynamic_shared[];
    values_ = reinterpret_cast<T*>(reinterpret_cast<char*>(dynamic_shared) + begin);
  }
  __device__ T& operator[](int i) const { return values_[i]; }
  // The 16 bytes that begin with element i.
  __device__ int4& vector(int i) const { return reinterpret_cast<int4&>(values_[i]); }
  // Begins to copy 16 bytes there. This thread may read them after wait_for_copies().
  __device__ void copy_vector(int i, const T* from) const {
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(values_ + i))),
        "l"(__cvta_generic_to_global(from))
        : "memory");
  }

 private:
  T* values_;
};

__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#else
using cpu_device::approximate_exp2, cpu_device::DynamicShared, cpu_device::load_16_bytes, cpu_device::Shared,
    cpu_device::store_16_bytes, cpu_device::wait_for_copies;
#endif

template <int W, class T>
__device__ Vector<T, W> load(const T* from) {
  Vector<T, W> vector;
  if constexpr (sizeof vector % 16 == 0) {
    int4 bits[sizeof vector / 16];
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof vector / 16); ++i)
      bits[i] = load_16_bytes(reinterpret_cast<const int4*>(from) + i);
    memcpy(&vector, bits, sizeof vector);
  } else {
    static_assert(W == 1);
    vector.values[0] = *from;
  }
  return vector;
}

template <int W, class T>
__device__ void store(T* to, const Vector<T, W>& vector) {
  if constexpr (sizeof vector % 16 == 0) {
    int4 bits[sizeof vector / 16];
    memcpy(bits, &vector, sizeof vector);
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof vector / 16); ++i)
      store_16_bytes(reinterpret_cast<int4*>(to) + i, bits[i]);
  } else {
    static_assert(W == 1);
    *to = vector.values[0];
  }
}

// The same in shared memory, from element i on.
template <int W, class T>
__device__ Vector<T, W> load(const DynamicShared<T>& from, int i) {
  Vector<T, W> vector;
  int4 bits[sizeof vector / 16];
#pragma unroll
  for (int k = 0; k < static_cast<int>(sizeof vector / 16); ++k) bits[k] = from.vector(i + k * full_width<T>);
  memcpy(&vector, bits, sizeof vector);
  return vector;
}

template <int W, class T>
__device__ void store(const DynamicShared<T>& to, int i, const Vector<T, W>& vector) {
  int4 bits[sizeof vector / 16];
  memcpy(bits, &vector, sizeof vector);
#pragma unroll
  for (int k = 0; k < static_cast<int>(sizeof vector / 16); ++k) to.vector(i + k * full_width<T>) = bits[k];
}

// Begins to copy W elements to shared memory (DynamicShared::copy_vector).
template <int W, class T>
__device__ void begin_copy(const DynamicShared<T>& to, int i, const T* from) {
#pragma unroll
  for (int e = 0; e < W; e += full_width<T>) to.copy_vector(i + e, from + e);
}

// Every lane gets the sum.
__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int distance = warp_size / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffU, x, distance);
  return x;
}

__device__ inline float inverse_sqrt(float x) {
#ifdef __CUDACC__
  return rsqrtf(x);
#else
  return 1.0F / std::sqrt(x);
#endif
}

// Every thread gets the sum. Once in a kernel: a second call could overwrite `sums` while others still read.
template <int Threads>
__device__ float block_sum(float x) {
  static_assert(Threads % warp_size == 0 && Threads <= 1024);
  __shared__ Shared<float, Threads / warp_size> sums;
  x = warp_sum(x);
  if (lane() == 0) sums[warp()] = x;
  __syncthreads();
  return warp_sum(lane() < Threads / warp_size ? static_cast<float>(sums[lane()]) : 0.0F);
}

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline dim3 grid_of(int64_t x, int64_t y = 1) { return {static_cast<unsigned>(x), static_cast<unsigned>(y), 1}; }

#ifdef __CUDACC__
inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

// Of the current device.
inline int attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}
#endif

inline int multiprocessors() {
#ifdef __CUDACC__
  return attribute(cudaDevAttrMultiProcessorCount);
#else
  return cpu_device::multiprocessors;
#endif
}

// How many blocks with so many bytes of shared memory a multiprocessor runs at once.
inline int64_t blocks_that_share(int64_t bytes) {
#ifdef __CUDACC__
  const int most = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
#else
  const int most = cpu_device::most_shared_bytes;
#endif
  constexpr int reserved = 1024;  // in each block, for the system
  return (most + reserved) / (bytes + reserved);
}

struct Block {
  Block(int of_threads, int64_t dynamic_bytes = 0)  // NOLINT(google-explicit-constructor): most have threads only
      : threads(of_threads), shared_bytes(static_cast<int>(dynamic_bytes)) {}
  int threads, shared_bytes;  // the dynamic ones
};

// Throws std::runtime_error with `what` and CUDA's words where the launch is refused. What a kernel does wrong later,
// CUDA reports to whoever waits for it.
template <class... Parameters>
void launch(const char* what, void (*kernel)(Parameters...), dim3 grid, Block block, cudaStream_t stream,
            std::enable_if_t<true, Parameters>... arguments) {
#ifdef __CUDACC__
  void* pointers[] = {&arguments...};
  const auto* function = reinterpret_cast<const void*>(kernel);
  const dim3 threads(static_cast<unsigned>(block.threads));
  if (block.shared_bytes > 0)
    check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, block.shared_bytes), what);
  check(cudaLaunchKernel(function, grid, threads, pointers, static_cast<size_t>(block.shared_bytes), stream), what);
#else
  static_cast<void>(stream);
  cpu_device::run(what, grid, block.threads, block.shared_bytes, [&] { kernel(arguments...); });
#endif
}

}  // namespace kernels
