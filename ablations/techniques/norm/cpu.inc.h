// Residual addition and LayerNorm, row by row (loops.h has the formulas). Part of cpu/kernels.inc.h.
#pragma once

#include "ablations/techniques/cpu/vectors.inc.h"
#include "ablations/techniques/norm/loops.h"

namespace model::cpu {
namespace {

template <class X, class Y, class N>
void add_norm_rows(const AddNorm& a, int64_t begin, int64_t end) {
  const int64_t C = a.C;
  Row scratch(C);
  float* __restrict row = scratch.data();
  for (int64_t i = begin; i < end; ++i) {
    const X* __restrict x = row_of<X>(a.x, i, C);
    if (a.y != nullptr) {
      const Y* __restrict y = row_of<Y>(a.y, i, C);
      X* __restrict sum = row_of<X>(a.sum, i, C);
      for (int64_t j = 0; j < C; ++j) {
        const X rounded = static_cast<X>(static_cast<float>(x[j]) + static_cast<float>(y[j]));
        sum[j] = rounded;
        row[j] = static_cast<float>(rounded);
      }
    } else {
      for (int64_t j = 0; j < C; ++j) row[j] = static_cast<float>(x[j]);
    }
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t j = 0; j < C; ++j) total += row[j];
    const float mean = total / static_cast<float>(C);
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t j = 0; j < C; ++j) squares += (row[j] - mean) * (row[j] - mean);
    const float rstd = 1.0F / __builtin_sqrtf(squares / static_cast<float>(C) + a.eps);
    a.mean[i] = mean;
    a.rstd[i] = rstd;
    N* __restrict out = row_of<N>(a.normalized, i, C);
    for (int64_t j = 0; j < C; ++j) out[j] = static_cast<N>((row[j] - mean) * rstd * a.weight[j] + a.bias[j]);
  }
}

template <class X, class Y, class N>
void add_norm_backward_rows(const AddNormBackward& a, int64_t begin, int64_t end, float* __restrict d_weight,
                            float* __restrict d_bias) {
  const int64_t C = a.C;
  Row of_n(C), of_g(C);
  float* __restrict n = of_n.data(), * __restrict g = of_g.data();
  for (int64_t i = begin; i < end; ++i) {
    const X* __restrict sum = row_of<X>(a.sum, i, C);
    const N* __restrict d_normalized = row_of<N>(a.d_normalized, i, C);
    const float mean = a.mean[i], rstd = a.rstd[i];
    float total_g = 0, total_gn = 0;
#pragma omp simd reduction(+ : total_g, total_gn)
    for (int64_t j = 0; j < C; ++j) {
      const float d = static_cast<float>(d_normalized[j]);
      n[j] = (static_cast<float>(sum[j]) - mean) * rstd;
      g[j] = d * a.weight[j];
      total_g += g[j];
      total_gn += g[j] * n[j];
      d_weight[j] += d * n[j];
      d_bias[j] += d;
    }
    const float mean_g = total_g / static_cast<float>(C), mean_gn = total_gn / static_cast<float>(C);
    for (int64_t j = 0; j < C; ++j) g[j] = rstd * (g[j] - mean_g - n[j] * mean_gn);
    if (a.d_sum != nullptr) {
      const X* __restrict d_sum = row_of<X>(a.d_sum, i, C);
      for (int64_t j = 0; j < C; ++j) g[j] += static_cast<float>(d_sum[j]);
    }
    X* __restrict dx = row_of<X>(a.dx, i, C);
    for (int64_t j = 0; j < C; ++j) dx[j] = static_cast<X>(g[j]);
    if (a.dy != nullptr) {
      Y* __restrict dy = row_of<Y>(a.dy, i, C);
      for (int64_t j = 0; j < C; ++j) dy[j] = static_cast<Y>(g[j]);
    }
  }
}

// A stream of 16 bits has branches and results of 16 bits (norm.cpp checks it). A float32 stream may have either.
template <class Run>
void by_types(Number stream, Number branch, Number out, Run&& run) {
  const bool x16 = stream == Number::bf16, y16 = branch == Number::bf16, n16 = out == Number::bf16;
  if (x16) return run(BFloat16(), BFloat16(), BFloat16());
  if (n16) return y16 ? run(float(), BFloat16(), BFloat16()) : run(float(), float(), BFloat16());
  return y16 ? run(float(), BFloat16(), float()) : run(float(), float(), float());
}

void add_norm(const AddNorm& a, int64_t begin, int64_t end) {
  by_types(a.stream, a.branch, a.out,
           [&]<class X, class Y, class N>(X, Y, N) { add_norm_rows<X, Y, N>(a, begin, end); });
}

void add_norm_backward(const AddNormBackward& a, int64_t begin, int64_t end, float* d_weight, float* d_bias) {
  by_types(a.stream, a.branch, a.out, [&]<class X, class Y, class N>(X, Y, N) {
    add_norm_backward_rows<X, Y, N>(a, begin, end, d_weight, d_bias);
  });
}

}  // namespace
}  // namespace model::cpu
