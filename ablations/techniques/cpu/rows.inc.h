// Residual addition and LayerNorm, GELU, and the loss, row by row. Part of kernels.inc.h.
#pragma once

#include "ablations/techniques/cpu/kernels.h"
#include "ablations/techniques/cpu/vectors.inc.h"

namespace model::cpu {
namespace {

// ---- Residual addition and LayerNorm

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

// A stream of 16 bits has branches and results of 16 bits (fused_norm.cpp checks it); a float32 stream any of the two.
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

// ---- GELU

constexpr float root_2_over_pi = 0.7978845608028654F, cubic = 0.044715F;

// 1 / (1 + exp(-2 z)). For bfloat16 a faster exponential is enough: its error, 20 units in the last place of float32,
// is 1/3000 of one of bfloat16's. It gives infinity for a NaN; the gate is then 0, and u times 0 is still a NaN.
template <class T>
Vector gate_of(const Vector& u) {
  const Vector minus_2_z = Vector(-2 * root_2_over_pi) * u * (Vector(1.0F) + Vector(cubic) * u * u);
  if constexpr (sizeof(T) == sizeof(BFloat16)) return Vector(1.0F) / (Vector(1.0F) + minus_2_z.exp_u20());
  return Vector(1.0F) / (Vector(1.0F) + minus_2_z.exp());
}

template <class T>
void gelu_rows(const Gelu& a, int64_t begin, int64_t end) {
  const int64_t n = a.columns;
  Row scratch(n);
  float* __restrict row = scratch.data();
  for (int64_t i = begin; i < end; ++i) {
    const T* __restrict x = row_of<T>(a.x, i, n);
    for (int64_t j = 0; j < n; ++j) row[j] = static_cast<float>(x[j]) + a.bias[j];
    map_row(row, row, n, [](const Vector& u, int64_t) { return u * gate_of<T>(u); });
    T* __restrict y = row_of<T>(a.y, i, n);
    for (int64_t j = 0; j < n; ++j) y[j] = static_cast<T>(row[j]);
  }
}

template <class T>
void gelu_backward_rows(const GeluBackward& a, int64_t begin, int64_t end, float* __restrict d_bias) {
  const int64_t n = a.columns;
  Row of_u(n), of_slope(n);
  float* __restrict u = of_u.data(), * __restrict slope = of_slope.data();
  for (int64_t i = begin; i < end; ++i) {
    const T* __restrict x = row_of<T>(a.x, i, n);
    for (int64_t j = 0; j < n; ++j) u[j] = static_cast<float>(x[j]) + a.bias[j];
    map_row(u, u, n, [slope, n](const Vector& v, int64_t j) {
      const Vector gate = gate_of<T>(v);
      // d(u gate) / du = gate + u gate (1 - gate) 2 dz/du
      const Vector dz = Vector(root_2_over_pi) * (Vector(1.0F) + Vector(3 * cubic) * v * v);
      const Vector result = gate + v * gate * (Vector(1.0F) - gate) * Vector(2.0F) * dz;
      result.store(slope + j, static_cast<int>(n - j < Vector::size() ? n - j : Vector::size()));
      return v * gate;
    });
    T* __restrict y = row_of<T>(a.y, i, n);
    for (int64_t j = 0; j < n; ++j) y[j] = static_cast<T>(u[j]);
    const T* dy = row_of<T>(a.dy, i, n);
    T* dx = row_of<T>(a.dx, i, n);
    for (int64_t j = 0; j < n; ++j) slope[j] *= static_cast<float>(dy[j]);
    for (int64_t j = 0; j < n; ++j) dx[j] = static_cast<T>(slope[j]);
    for (int64_t j = 0; j < n; ++j) d_bias[j] += slope[j];
  }
}

void gelu(const Gelu& a, int64_t begin, int64_t end) {
  a.type == Number::bf16 ? gelu_rows<BFloat16>(a, begin, end) : gelu_rows<float>(a, begin, end);
}

void gelu_backward(const GeluBackward& a, int64_t begin, int64_t end, float* d_bias) {
  a.type == Number::bf16 ? gelu_backward_rows<BFloat16>(a, begin, end, d_bias)
                         : gelu_backward_rows<float>(a, begin, end, d_bias);
}

// ---- Loss

template <class T>
void loss_rows(const Loss& a, int64_t begin, int64_t end) {
  const int64_t n = a.columns;
  Row scratch(n);
  float* __restrict row = scratch.data();
  for (int64_t i = begin; i < end; ++i) {
    T* __restrict logits = row_of<T>(a.logits, i, a.stride);
    float most = -__builtin_inff();
#pragma omp simd reduction(max : most)
    for (int64_t j = 0; j < n; ++j) {
      row[j] = static_cast<float>(logits[j]);
      most = row[j] > most ? row[j] : most;
    }
    const int64_t target = a.targets[i];
    const float of_target = row[target];
    Vector total(0.0F);
    int64_t j = 0;
    for (; j + Vector::size() <= n; j += Vector::size()) {
      const Vector e = (Vector::loadu(row + j) - Vector(most)).exp();
      e.store(row + j);
      total = total + e;
    }
    float sum = sum_of(total);
    if (j < n) {
      float last[Vector::size()];
      (Vector::loadu(row + j, n - j) - Vector(most)).exp().store(last);
      for (int64_t k = 0; j + k < n; ++k) sum += row[j + k] = last[k];
    }
    a.loss[i] = __builtin_logf(sum) + most - of_target;
    if (!a.write_gradient) continue;
    const float factor = a.scale / sum;
    for (int64_t k = 0; k < n; ++k) logits[k] = static_cast<T>(row[k] * factor);
    logits[target] = static_cast<T>((row[target] / sum - 1.0F) * a.scale);
    for (int64_t k = n; k < a.stride; ++k) logits[k] = static_cast<T>(0.0F);
  }
}

void loss(const Loss& a, int64_t begin, int64_t end) {
  a.type == Number::bf16 ? loss_rows<BFloat16>(a, begin, end) : loss_rows<float>(a, begin, end);
}

}  // namespace
}  // namespace model::cpu
