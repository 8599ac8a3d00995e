// The sum of the token and position embeddings, and their gradients.
#pragma once

#include "ablations/techniques/cuda/types.h"

#include <cstdint>

namespace kernels {

template <class W, class T>
struct EmbeddingForward {
  const int64_t* tokens;  // (N); the rows of those outside [0, V) become NaN
  const W* wte;           // (V, C)
  const float* wpe;       // (context, C) at least
  T* x;                   // (N, C)
  int64_t N, context, C, V;
};
// W, T: float, bf16.
template <class W, class T>
void embedding_forward(const EmbeddingForward<W, T>& arguments, cudaStream_t stream);

template <class T>
struct EmbeddingBackward {
  const T* upstream;             // (N, C)
  const int32_t* sorted_tokens;  // (N), ascending; those outside [0, V) have no gradient
  const int64_t* order;          // (N): sorted_tokens[i] is the token of row order[i]
  float* wte_gradient;           // (V, C): added to
  float* wpe_gradient;           // (P, C)
  bool accumulate_wpe;           // adds to what is in wpe_gradient; else rows that no token has become 0
  float* workspace;
  int64_t N, context, C, V, P;
};
int64_t embedding_backward_workspace(int64_t N, int64_t C);  // in floats
// T: float, bf16. The gradient depends on `order` only in the order of rows of one token: a stable sort gives the same
// bits every time.
template <class T>
void embedding_backward(const EmbeddingBackward<T>& arguments, cudaStream_t stream);

}  // namespace kernels
