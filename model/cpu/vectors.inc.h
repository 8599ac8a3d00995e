// What the loops share: vectors of ATen's, bfloat16, rows of float. Part of kernels.inc.h.
#pragma once

#include "model/cpu/memory.inc.h"

#include <ATen/cpu/vec/vec.h>

#include <cstdint>

namespace model::cpu {
namespace {

using Vector = at::vec::Vectorized<float>;

// c10::BFloat16's arithmetic, in functions that are this file's alone.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  // To the nearest, of two as near to the even one; a NaN stays one.
  explicit BFloat16(float value) {
    const auto from = __builtin_bit_cast(uint32_t, value);
    const uint32_t rounded = (from + 0x7FFF + ((from >> 16) & 1)) >> 16;
    bits = static_cast<uint16_t>(value == value ? rounded : 0x7FC0);
  }
  explicit operator float() const { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }
};

template <class T>
const T* row_of(const void* matrix, int64_t row, int64_t columns) {
  return static_cast<const T*>(matrix) + row * columns;
}
template <class T>
T* row_of(void* matrix, int64_t row, int64_t columns) {
  return static_cast<T*>(matrix) + row * columns;
}

// Calls f(Vector of in's numbers from j on, j) and writes what it returns. The last vector may be shorter; what is
// beyond its end is 0 and is not written.
template <class F>
void map_row(const float* in, float* out, int64_t n, F&& f) {
  int64_t j = 0;
  for (; j + Vector::size() <= n; j += Vector::size()) f(Vector::loadu(in + j), j).store(out + j);
  if (j < n) f(Vector::loadu(in + j, n - j), j).store(out + j, static_cast<int>(n - j));
}

float sum_of(Vector v) {
  float lanes[Vector::size()];
  v.store(lanes);
  float sum = 0;
  for (float lane : lanes) sum += lane;
  return sum;
}

}  // namespace
}  // namespace model::cpu
