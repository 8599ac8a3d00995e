// The fused operations' loops over rows on a CPU: raw pointers and sizes, no tensors. Compiled once for each
// instruction set (kernels.inc.h); `kernels()` gives those of the set that ATen uses.
//
// Matrices are row-major and dense. A number is a float or a bfloat16; all arithmetic is in float. Each function does
// the rows [begin, end), so that threads can share the rows.
#pragma once

#include <cstdint>

namespace model::cpu {

enum class Number { f32, bf16 };

// Rows of C numbers. x and y of the types `stream` and `branch`, normalized of the type `out`.
//   sum = x + y, rounded to `stream`;  mean, rstd of each row of sum;  normalized = (sum - mean) rstd weight + bias
// Where y is null there is no sum to write, and x takes its place.
struct AddNorm {
  Number stream, branch, out;
  const void *x, *y;
  void *sum, *normalized;
  float *mean, *rstd;          // (rows)
  const float *weight, *bias;  // (C)
  int64_t C;
  float eps;
};

// With n = (sum - mean) rstd and g = d_normalized weight:
//   dx = rstd (g - mean(g) - n mean(g n)) + d_sum;  d_weight += d_normalized n;  d_bias += d_normalized
// d_sum may be null. dy, of the type `branch`, is dx once more; null where nobody needs it. The sums over rows are
// added to d_weight and d_bias (C) of the caller, who gives each thread its own.
struct AddNormBackward {
  Number stream, branch, out;
  const void *sum, *d_sum, *d_normalized;
  void *dx, *dy;
  const float *mean, *rstd, *weight;
  int64_t C;
};

// Rows of `columns` numbers of one type. u = x + bias;  y = u / (1 + exp(-2 z)), z = sqrt(2 / pi) (u + 0.044715 u^3):
// the tanh approximation of GELU, as (1 + tanh z) / 2 = 1 / (1 + exp(-2 z)).
struct Gelu {
  Number type;
  const void* x;
  const float* bias;  // (columns)
  void* y;
  int64_t columns;
};

// dx = dy gelu'(u), and y anew. The columns' sums of dx are added to d_bias. dx may be dy.
struct GeluBackward {
  Number type;
  const void *x, *dy;
  const float* bias;
  void *y, *dx;
  int64_t columns;
};

// Rows of `stride` logits of one type, of which the first `columns` count and the others are padding.
//   loss[row] = log(sum_j exp(logits[j])) - logits[target]
//   logits[j] <- (softmax(logits)[j] - [j == target]) scale, padding <- 0; only where write_gradient
struct Loss {
  Number type;
  void* logits;
  const int64_t* targets;  // (rows)
  float* loss;             // (rows)
  int64_t columns, stride;
  float scale;
  bool write_gradient;
};

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

// Causal attention of B NH heads, HS numbers each, C = NH HS. Every head reads its part of each token's query,
// key and value and writes its part of the result, where they stand.
//   score[i][j] = q_i k_j / sqrt(HS) for j <= i;  logsumexp[i] = log(sum_j exp(score[i][j]))
//   out_i = sum_j p[i][j] v_j with p[i][j] = exp(score[i][j] - logsumexp[i])
struct Attention {
  Number type;
  const void* qkv;   // (B, T, 3C)
  void* out;         // (B, T, C)
  float* logsumexp;  // (B, NH, T)
  int64_t T, NH, HS;
};

// With d_p[i][j] = d_out_i v_j and d_score = p (d_p - d_out_i out_i) (Dao et al. 2022, FlashAttention, algorithm 4):
//   d_q_i = sum_j d_score[i][j] k_j / sqrt(HS);  d_k_j = sum_i d_score[i][j] q_i / sqrt(HS);  d_v_j = sum_i p[i][j]
//   d_out_i
struct AttentionBackward {
  Number type;
  const void *qkv, *out, *d_out;
  const float* logsumexp;
  void* d_qkv;  // (B, T, 3C)
  int64_t T, NH, HS;
};

// sum[tokens[i]] += row i of `rows`, one row after the other: a token may be there more than once.
struct AddRows {
  const float* rows;      // (count, C)
  const int64_t* tokens;  // (count)
  float* sum;             // (V, C)
  int64_t count, C;
};

// AdamW (Loshchilov and Hutter 2019, algorithm 2) of one tensor, in the order of ATen's fused kernel
// (FusedAdamKernel.cpp). With g = gradient coefficient, in the step t:
//   m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2
//   weight = weight kept - step_size m / (sqrt(v) / root_correction + eps)
//   kept = 1 - lr decay;  step_size = lr / (1 - beta1^t);  root_correction = sqrt(1 - beta2^t)
// A bf16 weight is joined with its remainder first, and split again afterwards (kernels/split_weight.h).
struct AdamW {
  Number type;  // of the weight
  void* weight;
  int16_t* remainder;  // of a bf16 weight; else null
  const float* gradient;
  float *first_moment, *second_moment;
  float coefficient, one_minus_beta1, beta2, one_minus_beta2, eps;
  float kept, step_size, root_correction;
};

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

// As Kernels::product, of bfloat16 matrices, where has_product_bf16(). Numbers that are not 0 but smaller than 2^-126
// are taken for 0.
void product_bf16(const Product&, int64_t part, int64_t parts);
// Has the processor AVX512_BF16, and does ATen use AVX-512?
bool has_product_bf16();

}  // namespace model::cpu
