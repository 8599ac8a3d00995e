// Matrix products of the model's linear layers: ATen's, or our own in packed panels (cpu/kernels.h).
#pragma once

#include "model/recipe.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

namespace model {

// a (M, K), b (K, N), bias (N) or undefined -> a b + bias (M, N), of a's type. `packed` is for a CPU: float32, and
// bfloat16 where has_packed_bf16(). a and b may have any strides, so that a.t() costs nothing.
at::Tensor product(Products kind, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

// c (M, N) <- a b, or c + a b. Numbers of a row of c stand side by side. Where c is float32 and a and b are not, `aten`
// rounds each number of a b to their type first.
void product_into(Products kind, const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, bool accumulate);

// Can this process make packed products of bfloat16? The processor must have AVX512_BF16, and ATen must use AVX-512.
bool has_packed_bf16();
// Packed products of bfloat16 that this process has made.
int64_t packed_bf16_products();

// A way to make a product on a GPU that was timed when its shape was first seen (blas.h).
struct TimedProduct {
  std::string product;  // "gelu", "gelu_backward", "weight_gradient", "weight_gradient +="
  std::string type;     // of the matrices: "Float", "BFloat16"
  int64_t m, n, k;      // as cuBLAS counts: the result has m columns and n rows here
  int algorithm;        // cuBLASLt's number of it; -1: a plain product and kernels after it
  double microseconds;
  bool chosen;
};
// All of this process, in the order of timing: of each product the plain way first. None where the program has no CUDA
// kernels.
std::vector<TimedProduct> timed_products();
std::vector<TimedProduct> cuda_timed_products();

}  // namespace model
