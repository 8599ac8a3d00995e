// The embedding's gradient, the gradients' norm and AdamW on a CPU: what its loops take and compute (cpu/kernels.h).
#pragma once

#include "ablations/techniques/cpu/number.h"

#include <cstdint>

namespace model::cpu {

// sum[tokens[i]] += row i of `rows`, one row after the other: a token may be there more than once.
struct AddRows {
  const float* rows;      // (count, C)
  const int64_t* tokens;  // (count)
  float* sum;             // (V, C)
  int64_t count, C;
};

// AdamW (Loshchilov and Hutter 2019, algorithm 2) of one tensor, in the order of ATen's fused kernel
// (FusedAdamKernel.cpp). With g = gradient coefficient, in the step t:
//   m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2
//   weight = weight kept - step_size m / (sqrt(v) / root_correction + eps)
//   kept = 1 - lr decay;  step_size = lr / (1 - beta1^t);  root_correction = sqrt(1 - beta2^t)
// A bf16 weight is joined with its remainder first, and split again afterwards (split_weight.h).
struct AdamW {
  Number type;  // of the weight
  void* weight;
  int16_t* remainder;  // of a bf16 weight; else null
  const float* gradient;
  float *first_moment, *second_moment;
  float coefficient, one_minus_beta1, beta2, one_minus_beta2, eps;
  float kept, step_size, root_correction;
};

}  // namespace model::cpu
