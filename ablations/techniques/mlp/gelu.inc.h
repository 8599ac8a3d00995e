// GELU, tanh form, and its gradient, as kernels compute them of one number.
//
//     gelu(x)  = x / 2 * (1 + tanh(u)) = x * s,  s = 1 / (1 + exp(-2 u)),  u = sqrt(2 / pi) * (x + 0.044715 x^3)
//     gelu'(x) = s + x * s * (1 - s) * 2 u',                               u' = sqrt(2 / pi) * (1 + 3 * 0.044715 x^2)
//
// The right-hand form has one exponential and one division, and no difference of near numbers.
#pragma once

#include "ablations/techniques/cuda/device.h"

namespace kernels {
namespace {

constexpr float twice_root_2_over_pi = 1.5957691216057308F, cubic = 0.044715F, log2_e = 1.4426950408889634F;

// s above.
__device__ float share(float x) {
  const float twice_u = twice_root_2_over_pi * (x + cubic * x * x * x);
  return __fdividef(1.0F, 1.0F + approximate_exp2(-log2_e * twice_u));
}

__device__ float gelu(float x) { return x * share(x); }

__device__ float gelu_gradient(float x) {
  // From 10 on the gradient is 1 in float32, and below -10 it is 0. Beyond, x^3 would become infinite and 0 * inf no
  // number. One that was none before stays so.
  const float clipped = x > 10.0F ? 10.0F : x < -10.0F ? -10.0F : x;
  const float s = share(clipped);
  const float twice_u_slope = twice_root_2_over_pi * (1.0F + 3.0F * cubic * clipped * clipped);
  return s + clipped * s * (1.0F - s) * twice_u_slope;
}

}  // namespace
}  // namespace kernels
