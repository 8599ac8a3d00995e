// Cross-entropy: logits -> a loss for each row, and the gradient in the logits' place.
#pragma once

#include "ablations/techniques/cuda/types.h"

#include <cstdint>

namespace kernels {

// Rows may be a part of a step's tokens: `scale` says what each is worth.
template <class T>
struct CrossEntropy {
  T* logits;               // (N, stride); afterwards their gradient, 0 from column V on
  const int64_t* targets;  // (N); one outside [0, V) makes its row's loss and gradient NaN
  float* losses;           // (N), negative log-likelihoods, not scaled
  int64_t N, V, stride;    // V columns count, stride - V are padding
  float scale;             // of the gradient: 1 / tokens for the gradient of the mean
  // The gradient in fp8 e5m2, too, where rows are multiples of 16 bytes: what `copy` has times *copy_scale. Or null.
  uint8_t* copy = nullptr;      // (N, stride)
  float* copy_scale = nullptr;  // one; no gradient is greater than `scale`
};

// T: float, bf16.
template <class T>
void cross_entropy(const CrossEntropy<T>& arguments, cudaStream_t stream);

// *mean = the mean of `count` losses, always added up in the same order.
void mean_loss(const float* losses, int64_t count, float* mean, cudaStream_t stream);

}  // namespace kernels
