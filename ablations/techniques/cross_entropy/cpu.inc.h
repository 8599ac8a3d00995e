// The loss and its gradient, row by row (loops.h has the formulas). Part of cpu/kernels.inc.h.
#pragma once

#include "ablations/techniques/cpu/vectors.inc.h"
#include "ablations/techniques/cross_entropy/loops.h"

namespace model::cpu {
namespace {

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
    const bool known = target >= 0 && target < n;  // the loss of another target is NaN, as on a GPU
    const float of_target = known ? row[target] : __builtin_nanf("");
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
    if (known) logits[target] = static_cast<T>((row[target] / sum - 1.0F) * a.scale);
    for (int64_t k = n; k < a.stride; ++k) logits[k] = static_cast<T>(0.0F);
  }
}

void loss(const Loss& a, int64_t begin, int64_t end) {
  a.type == Number::bf16 ? loss_rows<BFloat16>(a, begin, end) : loss_rows<float>(a, begin, end);
}

}  // namespace
}  // namespace model::cpu
