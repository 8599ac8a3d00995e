// Residual addition and LayerNorm in one pass, forward and backward. One such call reads each tensor of the residual
// stream. So its backward pass also adds the gradient that comes down the stream.
#pragma once

#include "ablations/techniques/cuda/types.h"
#include "ablations/techniques/fp8/row_copies.h"

#include <cstdint>

namespace kernels {

// T: the stream's type. B: the type of its branches, which read the normalized rows and make what is added. W: the
// weights' type. There are (float, float, float), (float, bf16, float), (bf16, bf16, float), (bf16, bf16, bf16).
template <class T, class B, class W>
struct AddNormForward {
  const T* x;       // (N, C)
  const B* y;       // (N, C); null where there is nothing to add
  const W* weight;  // (C)
  const W* bias;    // (C)
  T* sum;           // (N, C), x + y; not written where y is null
  B* normalized;    // (N, C), LayerNorm of x + y
  float* mean;      // (N), for the backward pass
  float* rstd;      // (N), 1 / sqrt(variance + eps)
  int64_t N, C;
  float eps;
  // `normalized` over the scale in fp8 e4m3, too; null: not wanted. B is bfloat16, C a multiple of 8, 2,048 at most.
  uint8_t* copy = nullptr;            // (N, C)
  const float* copy_scale = nullptr;  // one
};
template <class T, class B, class W>
void add_norm_forward(const AddNormForward<T, B, W>& arguments, cudaStream_t stream);

template <class T, class B, class W>
struct AddNormBackward {
  const T* of_sum;         // (N, C), the gradient that comes down the stream; null at the stream's end
  const B* of_normalized;  // (N, C)
  const T* sum;            // (N, C), of the forward pass: `x` where `y` was null
  const W* weight;         // (C)
  const float* mean;       // (N)
  const float* rstd;       // (N)
  T* gradient;             // (N, C), x's and y's; may be `of_sum`, or `of_normalized` where B is T
  B* branch_gradient;      // (N, C), the same in y's type; null where B is T or there was no y
  // (2, strips, C) of weight and bias, for finish_columns() (products/column_sum.h). With sums_branch (3, strips, C):
  // the third are of y's gradient as it is rounded, which is what the bias of the layer that made y gets.
  float* partials;
  bool sums_branch;
  int64_t N, C;
  RowCopies copies = {};  // of y's gradient; null: not wanted. B is bfloat16, C a multiple of 8.
};
template <class T, class B>
int64_t add_norm_backward_strips(int64_t N, int64_t C);  // of `partials`
// Whether it made all sums: those of y's gradient it makes of rows of vectors, 1,024 numbers at most.
template <class T, class B, class W>
bool add_norm_backward(const AddNormBackward<T, B, W>& arguments, cudaStream_t stream);

}  // namespace kernels
