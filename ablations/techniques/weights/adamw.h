// AdamW over all parameters in one launch, with clipping.
#pragma once

#include "ablations/techniques/weights/tensors.h"

namespace kernels {

struct AdamW {
  const ParameterTensor* tensors;  // on the device
  const Chunk* chunks;             // on the device
  int64_t chunk_count;
  // On the device, so that a replayed graph takes the step's own.
  const float* learning_rate;
  const float* step;         // the step's number, from 1
  const float* coefficient;  // what gradients are multiplied by: gradient_norm.h's
  double beta1, beta2, eps;
};

// T, the weights of all tensors: float, or bf16 with remainders.
template <class T>
void adamw(const AdamW& arguments, cudaStream_t stream);

}  // namespace kernels
