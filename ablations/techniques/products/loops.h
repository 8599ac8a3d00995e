// Matrix products on a CPU: what its loops take and compute (cpu/kernels.h).
#pragma once

#include "ablations/techniques/cpu/number.h"

#include <cstdint>

namespace model::cpu {

// c (M, N) = a (M, K) b (K, N), plus bias (N) to every row where there is one; or c += a b. Strides may be any, in
// numbers: a matrix and its transpose differ only in them. The rows of c are `c_row` numbers apart; their numbers stand
// side by side. Sums are float32's. All three are float32. In product_bf16 a and b are bfloat16, and c is of `c_type`.
// Only a float32 c is added to.
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

// Whether the processor has AVX512_BF16 and ATen uses AVX-512.
bool has_product_bf16();
// As Kernels::product, for bfloat16 matrices, where has_product_bf16(). Numbers smaller than 2^-126 are taken for 0.
void product_bf16(const Product&, int64_t part, int64_t parts);

using Pair = uint32_t;  // two bfloat16, the one of the smaller k in the lower half

// A block of it, by oneDNN, which uses AMX where the processor has it: c (rows, columns) = a b, or c += a b if `adds`.
// a is (rows, 2 pairs), b (pairs, columns). Rows are `..._row` of their matrix's numbers apart.
void block_product(int64_t rows, int64_t columns, int64_t pairs, const uint16_t* a, int64_t a_row, const Pair* b,
                   int64_t b_row, float* c, int64_t c_row, bool adds);
// Gives AMX's registers back, after a thread's last block.
void end_block_products();

}  // namespace model::cpu
