// Bias and GELU, row by row (loops.h has the formulas). Part of cpu/kernels.inc.h.
#pragma once

#include "ablations/techniques/cpu/vectors.inc.h"
#include "ablations/techniques/mlp/loops.h"

namespace model::cpu {
namespace {

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

}  // namespace
}  // namespace model::cpu
