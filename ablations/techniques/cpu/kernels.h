// The fused operations' loops over rows on a CPU: raw pointers and sizes, no tensors. Compiled once for each
// instruction set (kernels.inc.h); `kernels()` gives those of the set that ATen uses.
//
// Each technique's loops.h has what its loops take and compute. Matrices are row-major and dense. A number is a float
// or a bfloat16; all arithmetic is in float. A function does the rows [begin, end), so that threads can share the rows.
#pragma once

#include "ablations/techniques/attention/loops.h"
#include "ablations/techniques/cross_entropy/loops.h"
#include "ablations/techniques/mlp/loops.h"
#include "ablations/techniques/norm/loops.h"
#include "ablations/techniques/products/loops.h"
#include "ablations/techniques/weights/loops.h"

namespace model::cpu {

struct Kernels {
  void (*add_norm)(const AddNorm&, int64_t begin, int64_t end);
  void (*add_norm_backward)(const AddNormBackward&, int64_t begin, int64_t end, float* d_weight, float* d_bias);
  void (*gelu)(const Gelu&, int64_t begin, int64_t end);
  void (*gelu_backward)(const GeluBackward&, int64_t begin, int64_t end, float* d_bias);
  void (*loss)(const Loss&, int64_t begin, int64_t end);
  // One of `parts` shares of a product of float32, which are about equal.
  void (*product)(const Product&, int64_t part, int64_t parts);
  // The heads [begin, end) of B NH.
  void (*attention)(const Attention&, int64_t begin, int64_t end);
  void (*attention_backward)(const AttentionBackward&, int64_t begin, int64_t end);
  // The columns [begin, end) of all rows.
  void (*add_rows)(const AddRows&, int64_t begin, int64_t end);
  // The sum of n numbers' squares.
  double (*squares)(const float* x, int64_t n);
  // The numbers [begin, end).
  void (*adamw)(const AdamW&, int64_t begin, int64_t end);
};

extern const Kernels plain_kernels, avx2_kernels, avx512_kernels;

// By ATen's own choice, which ATEN_CPU_CAPABILITY can lower.
const Kernels& kernels();

}  // namespace model::cpu
