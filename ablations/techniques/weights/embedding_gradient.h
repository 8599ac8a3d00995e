// The embedding with static gradients: those of its two weights, and on a GPU its forward pass.
#pragma once

#include "model/gradients.h"
#include "model/ops.h"

namespace model {

// Writes or adds what dx (B, T, C), contiguous, gives wte (V, C) and wpe (P, C) for tokens (B, T).
using EmbeddingGradient = void(Gradients& gradients, const at::Tensor& dx, const at::Tensor& tokens,
                               const at::Tensor& wte, const at::Tensor& wpe);
EmbeddingGradient embedding_gradient, cuda_embedding_gradient;

// `embed` with a backward pass that calls it.
decltype(Ops::embed) embed_into(Gradients& gradients, EmbeddingGradient* write, const decltype(Ops::embed)& embed);

// `embed` by a kernel of our own, which writes the residual stream's type: float32 or bfloat16.
decltype(Ops::embed) cuda_embedding(at::ScalarType stream);

}  // namespace model
