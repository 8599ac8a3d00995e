// Gradients of a linear layer's weight and bias, in float32. They are written or added where `gradients` has a place
// for them, and undefined is returned; where it is null they are returned.
#pragma once

#include "model/gradients.h"

#include <ATen/ATen.h>

namespace model {

// dy (N, out), x (N, in) of one type -> (out, in)
at::Tensor weight_gradient(Gradients* gradients, const at::Tensor& weight, const at::Tensor& dy, const at::Tensor& x);

// dy (N, out) -> (out)
at::Tensor bias_gradient(Gradients* gradients, const at::Tensor& bias, const at::Tensor& dy);

// sums.buffer (C) float32 <- over the rows of x (N, C), or added to it.
void column_sum(const at::Tensor& x, const Gradients::Place& sums);

}  // namespace model
