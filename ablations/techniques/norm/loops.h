// Residual addition and LayerNorm on a CPU: what its loops take and compute (cpu/kernels.h).
#pragma once

#include "ablations/techniques/cpu/number.h"

#include <cstdint>

namespace model::cpu {

// Rows of C numbers. x and y of the types `stream` and `branch`, normalized of the type `out`.
//   sum = x + y, rounded to `stream`;  mean, rstd of each row of sum;  normalized = (sum - mean) rstd weight + bias
// Where y is null there is no sum to write, and x takes its place.
struct AddNorm {
  Number stream, branch, out;
  const void *x, *y;
  void *sum, *normalized;
  float *mean, *rstd;          // (rows)
  const float *weight, *bias;  // (C)
  int64_t C;
  float eps;
};

// With n = (sum - mean) rstd and g = d_normalized weight:
//   dx = rstd (g - mean(g) - n mean(g n)) + d_sum;  d_weight += d_normalized n;  d_bias += d_normalized
// d_sum may be null. dy, of the type `branch`, is dx once more; null where nobody needs it. The sums over rows are
// added to d_weight and d_bias (C) of the caller, who gives each thread its own.
struct AddNormBackward {
  Number stream, branch, out;
  const void *sum, *d_sum, *d_normalized;
  void *dx, *dy;
  const float *mean, *rstd, *weight;
  int64_t C;
};

}  // namespace model::cpu
