// A float32 weight as a bf16 number and the 16 bits that it lacks. Both are in use: products read the bf16 alone, and
// the optimizer joins the two and loses nothing.
//
//     hi = (bits + 0x8000) >> 16,  lo = bits - (hi << 16),  bits = (hi << 16) + lo
//
// hi is the nearest bf16; of two equally near ones it is the greater in magnitude. lo is signed. TransformerEngine
// calls this store_param_remainders.
#pragma once

#include <cstdint>
#include <cstring>

#ifndef __CUDACC__
#include <cuda_runtime_api.h>  // __host__, __device__
#endif

namespace kernels {

struct SplitWeight {
  uint16_t hi;  // the bits of the bf16
  int16_t lo;
};

__host__ __device__ inline SplitWeight split(float weight) {
  uint32_t bits = 0;
  memcpy(&bits, &weight, sizeof bits);
  // NaN's bits may be 0x7fffffff, whose hi would be -0.
  if (weight != weight) bits = 0x7fc00000U;
  const uint32_t hi = (bits + 0x8000U) >> 16;
  return {static_cast<uint16_t>(hi), static_cast<int16_t>(static_cast<uint16_t>(bits - (hi << 16)))};
}

__host__ __device__ inline float join(SplitWeight parts) {
  const uint32_t bits = (uint32_t{parts.hi} << 16) + static_cast<uint32_t>(int32_t{parts.lo});
  float weight = 0;
  memcpy(&weight, &bits, sizeof weight);
  return weight;
}

}  // namespace kernels
