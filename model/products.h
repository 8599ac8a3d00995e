// Matrix products of the model's linear layers: ATen's, or our own in packed panels (cpu/kernels.h).
#pragma once

#include "model/recipe.h"

#include <ATen/ATen.h>

namespace model {

// a (M, K), b (K, N), bias (N) or undefined -> a b + bias (M, N), of a's type. `packed` is for float32 on a CPU; a and
// b may have any strides, so that a.t() costs nothing.
at::Tensor product(Products kind, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

// c (M, N) <- a b, or c + a b. Numbers of a row of c stand side by side. Where c is float32 and a and b are not, each
// number of a b is rounded to their type first.
void product_into(Products kind, const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, bool accumulate);

}  // namespace model
