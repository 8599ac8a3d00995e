// The loss and the gradient of its logits on a CPU: what its loops take and compute (cpu/kernels.h).
#pragma once

#include "ablations/techniques/cpu/number.h"

#include <cstdint>

namespace model::cpu {

// Rows of `stride` logits of one type, of which the first `columns` count and the others are padding.
//   loss[row] = log(sum_j exp(logits[j])) - logits[target]
//   logits[j] <- (softmax(logits)[j] - [j == target]) scale, padding <- 0; only where write_gradient
struct Loss {
  Number type;
  void* logits;
  const int64_t* targets;  // (rows)
  float* loss;             // (rows)
  int64_t columns, stride;
  float scale;
  bool write_gradient;
};

}  // namespace model::cpu
