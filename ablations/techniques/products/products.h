// Matrix products of the model's linear layers: ATen's, or our own in packed panels (cpu/kernels.h).
#pragma once

#include "model/recipe.h"
#include "results/observations.h"

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

// How the products of this process on a GPU are made, in the order in which they were chosen (choose.h). None where the
// program has no CUDA kernels.
std::vector<results::ProductTiming> product_timings();
std::vector<results::ProductTiming> cuda_product_timings();
// From now on such products are made so, without timing, where that is possible. They are another process's, with the
// same GPU and cuBLASLt.
void keep_product_timings(std::vector<results::ProductTiming> timings);
void keep_cuda_timings(std::vector<results::ProductTiming> timings);
// "130100"; empty where the program has no CUDA kernels.
std::string product_library();
std::string cublaslt_version();

}  // namespace model
