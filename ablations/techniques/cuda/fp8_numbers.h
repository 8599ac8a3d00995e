// fp8 numbers in kernels: bytes, eight at a time. A number that is too large for the type becomes its largest.
#pragma once

#include "ablations/techniques/cuda/device.h"

#include <cuda_fp8.h>

namespace kernels {

constexpr float largest_e4m3 = 448, largest_e5m2 = 57344;

__device__ inline uint32_t fp8_of_4(const float* x, float factor, __nv_fp8_interpretation_t type) {
  const uint32_t low = __nv_cvt_float2_to_fp8x2({x[0] * factor, x[1] * factor}, __NV_SATFINITE, type);
  const uint32_t high = __nv_cvt_float2_to_fp8x2({x[2] * factor, x[3] * factor}, __NV_SATFINITE, type);
  return low | high << 16;
}

// x times the factor. `to` is a multiple of 8 bytes.
__device__ inline void store_8_fp8(uint8_t* to, const float (&x)[8], float factor, __nv_fp8_interpretation_t type) {
  const uint2 bits{fp8_of_4(x, factor, type), fp8_of_4(x + 4, factor, type)};
  *reinterpret_cast<uint2*>(to) = bits;
}

// What a number is multiplied by so that the greatest becomes the type's largest. 1 where all are so small that the
// factor, or what it divides later, would not be a normal float: they become 0.
__device__ inline float fp8_factor(float greatest, float largest) {
  constexpr float least = 1e-34F;
  return greatest > least ? largest / greatest : 1.0F;
}

// Every lane gets the greatest. NaN counts for nothing.
__device__ inline float warp_max(float x) {
#pragma unroll
  for (int distance = warp_size / 2; distance > 0; distance /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, distance));
  return x;
}

// Every thread gets the greatest. Once in a kernel.
template <int Threads>
__device__ float block_max(float x) {
  __shared__ Shared<float, Threads / warp_size> greatest;
  x = warp_max(x);
  if (lane() == 0) greatest[warp()] = x;
  __syncthreads();
  return warp_max(lane() < Threads / warp_size ? static_cast<float>(greatest[lane()]) : 0.0F);
}

}  // namespace kernels
