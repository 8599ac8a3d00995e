// Rows in fp8 beside their bfloat16 originals, each with a scale of its own. The kernels that make the originals make
// the copies.
#pragma once

#include "ablations/techniques/cuda/types.h"

#include <cstdint>

namespace kernels {

// Of a matrix (N, C). C is a multiple of 8, 8,192 at most.
struct RowCopies {
  uint8_t* values;  // (N, C) e4m3
  float* scales;    // (N): what they are to be multiplied by, a row's greatest number over 448
};

// hidden (N, C) <- GELU(fc + bias), tanh form, and its copies. fc (N, C), bias (C).
void gelu_forward_fp8(const bf16* fc, const bf16* bias, bf16* hidden, const RowCopies& copies, int64_t N, int64_t C,
                      cudaStream_t stream);

// Sums of columns, in strips: partials (row_copies_strips, C), to be added up by finish_columns().
int64_t row_copies_strips(int64_t N, int64_t C);

// gradient (N, C) <- upstream * GELU'(fc + bias), its copies, and sums of its columns. `gradient` may be `upstream`.
struct GeluBackwardFp8 {
  const bf16 *fc, *bias, *upstream;
  bf16* gradient;
  RowCopies copies;
  float* partials;
  int64_t N, C;
};
void gelu_backward_fp8(const GeluBackwardFp8& arguments, cudaStream_t stream);

// joined (N, 3C) <- three matrices (N, C) side by side, its copies, and sums of its columns.
struct JoinFp8 {
  const bf16* parts[3];
  bf16* joined;
  RowCopies copies;
  float* partials;  // of 3C columns
  int64_t N, C;
};
void join_fp8(const JoinFp8& arguments, cudaStream_t stream);

}  // namespace kernels
