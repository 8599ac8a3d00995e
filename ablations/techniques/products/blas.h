// Matrix products with something done to the result where it is written, by cuBLASLt. All matrices are contiguous, row
// by row, and of one type, float32 or bfloat16. Only gradients of weights are always float32. GELU's epilogues are for
// bfloat16 only: cuBLASLt does not say how exact its tanh is, and in float32 it could be seen.
//
// The first time that a shape is seen, each algorithm that cuBLASLt proposes is timed. So is the other way of doing the
// same. Later calls take the fastest (products.h: timed_products()). While a graph is captured nothing is timed. With
// deterministic algorithms nothing is timed either. Then the first proposal is taken, so that every run adds in the
// same order.
#pragma once

#include <ATen/ATen.h>

#include <functional>

namespace model::blas {

// Does the same as the call that it is given to: a plain product and kernels after it.
using Otherwise = std::function<void()>;

// fc (M, N) <- x (M, K) weight^T (N, K) + bias (N);  hidden (M, N) <- GELU(fc), tanh form
struct Gelu {
  const at::Tensor &fc, &hidden, &x, &weight, &bias;
};
void gelu(const Gelu& call, const Otherwise& otherwise);

// d_fc (M, N) <- dy (M, K) weight (K, N) * GELU'(fc). Returns whether cuBLASLt did it. Only then
// d_bias (N) <- sums of d_fc's columns.
struct GeluBackward {
  const at::Tensor &d_fc, &d_bias, &dy, &weight, &fc;
};
bool gelu_backward(const GeluBackward& call, const Otherwise& otherwise);

// gradient (N, K) float32 <- a^T (M, N) b (M, K), or gradient + that
void weight_gradient(const at::Tensor& gradient, const at::Tensor& a, const at::Tensor& b, bool accumulate);

}  // namespace model::blas
