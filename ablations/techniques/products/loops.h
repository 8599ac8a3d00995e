// Matrix products on a CPU: what its loops take and compute (cpu/kernels.h).
#pragma once

#include "ablations/techniques/cpu/number.h"

#include <cstdint>

namespace model::cpu {

// c (M, N) = a (M, K) b (K, N), plus bias (N) to every row where there is one; or c += a b. Any strides, in numbers: a
// matrix and its transpose differ only in them. The rows of c are `c_row` numbers apart, their numbers stand side by
// side. Sums are float32's. a, b and c are float32; in product_bf16 a and b are bfloat16, and c is of
// `c_type`. c += only where c is float32.
struct Product {
  Number c_type;
  int64_t M, N, K;
  const void* a;
  int64_t a_row, a_column;
  const void* b;
  int64_t b_row, b_column;
  void* c;
  int64_t c_row;
  const float* bias;
  bool accumulate;
};

// As Kernels::product, of bfloat16 matrices, where has_product_bf16(). Numbers that are not 0 but smaller than 2^-126
// are taken for 0.
void product_bf16(const Product&, int64_t part, int64_t parts);
// Has the processor AVX512_BF16, and does ATen use AVX-512?
bool has_product_bf16();

}  // namespace model::cpu
