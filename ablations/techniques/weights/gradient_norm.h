// The norm over all gradients, and what they are multiplied by to clip it.
#pragma once

#include "ablations/techniques/weights/tensors.h"

namespace kernels {

struct GradientNorm {
  const ParameterTensor* tensors;  // on the device
  const Chunk* chunks;             // on the device
  int64_t chunk_count;
  float max_norm;
  float* workspace;    // chunk_count floats
  float* norm;         // on the device
  float* coefficient;  // on the device: min(1, max_norm / (norm + 1e-6)), NaN where the norm is
};
void gradient_norm(const GradientNorm& arguments, cudaStream_t stream);

}  // namespace kernels
