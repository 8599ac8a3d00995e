// Matrix products of a step on a GPU, by cuBLASLt, some with something done to the result where it is written. Matrices
// are of one type, float32 or bfloat16. Only gradients of weights are always float32. Which algorithm makes a product,
// or ATen, is chosen by timing (choose.h).
#pragma once

#include "ablations/techniques/fp8/copies.h"

#include <ATen/ATen.h>

#include <functional>

namespace model::blas {

// Does the same as the call that it is given to: a plain product and kernels after it.
using Otherwise = std::function<void()>;

// d (M, N) <- a (M, K) b (K, N) + bias (N) or undefined. a and b lie row by row, or their transposes do; otherwise ATen
// makes it.
void product(const at::Tensor& d, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias);

// d (M, N) bfloat16 <- left (M, K) right (N, K)^T + bias (N) or undefined, of fp8 matrices. False where cuBLASLt does
// not multiply them. Sums are promoted to float32 only at the end: on an H200 such products took 5 to 14 % less time,
// and their relative error went from 0.0376 to 0.0380 at most (results/evidence/nvidia-h200-products-2026-11-26).
bool fp8_product(const at::Tensor& d, const Fp8Matrix& left, const Fp8Matrix& right, const at::Tensor& bias);

// fc (M, N) <- x (M, K) weight^T (N, K) + bias (N);  hidden (M, N) <- GELU(fc), tanh form. In float32 always otherwise:
// cuBLASLt does not say how exact its tanh is.
struct Gelu {
  const at::Tensor &fc, &hidden, &x, &weight, &bias;
};
void gelu(const Gelu& call, const Otherwise& otherwise);

// d_fc (M, N) <- dy (M, K) weight (K, N) times GELU's derivative at fc (M, N), by an epilogue and then `sums`, which
// sums d_fc's columns, or otherwise. In float32 always otherwise.
struct GeluBackward {
  const at::Tensor &d_fc, &dy, &weight, &fc;
};
void gelu_backward(const GeluBackward& call, const Otherwise& sums, const Otherwise& otherwise);

// gradient (N, K) float32 <- a^T (M, N) b (M, K), or gradient + that
void weight_gradient(const at::Tensor& gradient, const at::Tensor& a, const at::Tensor& b, bool accumulate);

}  // namespace model::blas
