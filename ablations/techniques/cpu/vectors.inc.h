// What the loops over rows share: vectors of ATen's. Part of kernels.inc.h.
#pragma once

#include "ablations/techniques/cpu/memory.inc.h"

#include <ATen/cpu/vec/vec.h>

#include <cstdint>

namespace model::cpu {
namespace {

using Vector = at::vec::Vectorized<float>;

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
