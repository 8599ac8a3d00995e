// Matrix products of the model's linear layers: ATen's, or our own in packed panels (cpu/kernels.h).
#pragma once

#include "model/recipe.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
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

// How a product on a GPU is made: chosen by timing when its shape was first seen (choose.h).
struct ProductChoice {
  std::string product;          // "forward", "input_gradient", "gelu", "weight_gradient", ...
  std::string type;             // of the matrices: "Float", "TF32", "BFloat16", "Float8_e4m3fn"
  int64_t m = 0, n = 0, k = 0;  // as cuBLAS counts: the result has m columns and n rows here
  int64_t alignment = 0;        // of the matrices in memory, in bytes
  int algorithm = -1;           // cuBLASLt's number of it; -1: the other way, or none
  std::string bits = {};        // of the algorithm, for the same version of cuBLASLt; empty: the other way
  double microseconds = 0;      // of what was taken
  std::optional<double> other_microseconds = {};  // of the other way: ATen, or a plain product and kernels after it
  int64_t tried = 0;                              // how many ways were timed
  bool was_kept = false;                          // handed over, not timed here
};
// All of this process, in order. None where the program has no CUDA kernels.
std::vector<ProductChoice> product_choices();
std::vector<ProductChoice> cuda_product_choices();
// From now on such products are made so, without timing, where that is possible. They are those of another process with
// the same GPU and cuBLASLt.
void keep_choices(const std::vector<ProductChoice>& choices);
void keep_cuda_choices(const std::vector<ProductChoice>& choices);
// "130100"; empty where the program has no CUDA kernels.
std::string product_library();
std::string cublaslt_version();

}  // namespace model
