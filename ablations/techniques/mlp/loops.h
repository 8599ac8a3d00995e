// Bias and GELU on a CPU: what its loops take and compute (cpu/kernels.h).
#pragma once

#include "ablations/techniques/cpu/number.h"

#include <cstdint>

namespace model::cpu {

// Rows of `columns` numbers of one type. The tanh approximation of GELU, as (1 + tanh z) / 2 = 1 / (1 + exp(-2 z)):
//     u = x + bias;  y = u / (1 + exp(-2 z)), z = sqrt(2 / pi) (u + 0.044715 u^3)
struct Gelu {
  Number type;
  const void* x;
  const float* bias;  // (columns)
  void* y;
  int64_t columns;
};

// dx = dy gelu'(u), and y anew. The columns' sums of dx are added to d_bias. dx may be dy.
struct GeluBackward {
  Number type;
  const void *x, *dy;
  const float* bias;
  void *y, *dx;
  int64_t columns;
};

}  // namespace model::cpu
