// What the kernels are written in: 16-byte vectors, sums of a warp and of a block, shared memory, the launch.
//
// A .cu file here is compiled twice: by nvcc for a GPU, and by g++ for the tests. The tests run its threads on the CPU
// (cpu_device.h). What differs between the two is in this header and in that one, not in the kernels. The kernels'
// rules:
//   - A kernel is started by launch().
//   - Shared memory is a Shared<T, N>, and is read only after a __syncthreads().
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
#else
using cpu_device::approximate_exp2, cpu_device::load_16_bytes, cpu_device::Shared, cpu_device::store_16_bytes;
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
#endif

// Of the current device.
inline int multiprocessors() {
#ifdef __CUDACC__
  int device = 0, count = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  return count;
#else
  return cpu_device::multiprocessors;
#endif
}

// Throws std::runtime_error with `what` and CUDA's words where the launch is refused. What a kernel does wrong later,
// CUDA reports to whoever waits for it.
template <class... Parameters>
void launch(const char* what, void (*kernel)(Parameters...), dim3 grid, int threads, cudaStream_t stream,
            std::enable_if_t<true, Parameters>... arguments) {
#ifdef __CUDACC__
  void* pointers[] = {&arguments...};
  const dim3 block(static_cast<unsigned>(threads));
  check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers, 0, stream), what);
#else
  static_cast<void>(stream);
  cpu_device::run(what, grid, threads, [&] { kernel(arguments...); });
#endif
}

}  // namespace kernels
