// Query, key and value of one product, whose gradients are put together by our own kernel.
#pragma once

#include "model/gradients.h"

#include <ATen/ATen.h>

#include <array>

namespace model {

// qkv (B, T, 3C), float32 or bfloat16, a product with `bias` (3C) -> query, key and value (B, T, C), views of it. One
// node of autograd's graph, JoinedThirds. Its backward pass makes the gradients of qkv and of `bias`. So the product
// should make none of the bias.
// `fp8`: an fp8 copy of qkv's gradient is made, too.
std::array<at::Tensor, 3> joined_thirds(const at::Tensor& qkv, const at::Tensor& bias, bool fp8, Gradients* gradients);

}  // namespace model
