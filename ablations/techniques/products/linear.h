// What a device does for a linear layer y = x w^T + b, x (N, in), w (out, in), b (out). It makes products, and the
// gradients of weight and bias. Operations that contain linear layers are written once against this table.
#pragma once

#include "ablations/techniques/products/products.h"
#include "model/gradients.h"
#include "model/ops.h"

#include <ATen/ATen.h>

namespace model {

struct LinearProducts {
  // a (M, K), b (K, N), bias (N) or undefined -> a b + bias (M, N), of a's type
  at::Tensor (*product)(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias);
  // c (M, N) <- a b
  void (*product_into)(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b);
  // dy (N, out), x (N, in) of one type -> dy^T x (out, in), written to the float32 place or added to it.
  void (*weight_gradient_into)(const Gradients::Place& place, const at::Tensor& dy, const at::Tensor& x);
  // For a backward pass to return. Undefined if `gradients` has its place, where it is put; else the gradient.
  at::Tensor (*weight_gradient)(Gradients* gradients, const at::Tensor& weight, const at::Tensor& dy,
                                const at::Tensor& x);
  // The sum of dy's rows, alike.
  at::Tensor (*bias_gradient)(Gradients* gradients, const at::Tensor& bias, const at::Tensor& dy);
};

extern const LinearProducts aten_products, packed_products, cuda_products, emulated_fp8_products;

// `products.bias_gradient` for a backward pass to return. Undefined for a bias that is detached or undefined.
at::Tensor gradient_of_bias(const LinearProducts& products, Gradients* gradients, const at::Tensor& bias,
                            const at::Tensor& dy);

// The recipe's products.
const LinearProducts& products_of(const Recipe& recipe);

// By the name of the table in autograd's graph: AtenLinear, PackedLinear, CudaLinear. A detached bias gets no gradient.
decltype(Ops::linear) own_linear(const LinearProducts& products, Gradients* gradients);

}  // namespace model
