// What is done to gradients and weights: rows added to an embedding's gradient, the sum for the gradients' norm, AdamW.
// Part of kernels.inc.h.
#pragma once

#include "ablations/techniques/cpu/vectors.inc.h"
#include "ablations/techniques/weights/loops.h"

namespace model::cpu {
namespace {

void add_rows(const AddRows& a, int64_t begin, int64_t end) {
  for (int64_t i = 0; i < a.count; ++i) {
    const float* __restrict row = a.rows + i * a.C;
    float* __restrict sum = a.sum + a.tokens[i] * a.C;
    for (int64_t j = begin; j < end; ++j) sum[j] += row[j];
  }
}

double squares(const float* x, int64_t n) {
  constexpr int64_t step = 4 * Vector::size();  // four sums, so that an addition need not wait for the one before
  Vector sums[4] = {Vector(0.0F), Vector(0.0F), Vector(0.0F), Vector(0.0F)};
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    for (int64_t k = 0; k < 4; ++k) {
      const Vector value = Vector::loadu(x + i + k * Vector::size());
      sums[k] = at::vec::fmadd(value, value, sums[k]);
    }
  }
  double total = sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; i < n; ++i) total += static_cast<double>(x[i]) * x[i];
  return total;
}

// split_weight.h's arithmetic.
float joined(uint16_t hi, int16_t lo) {
  return __builtin_bit_cast(float, (static_cast<uint32_t>(hi) << 16) + static_cast<uint32_t>(int32_t{lo}));
}
void split(float weight, uint16_t& hi, int16_t& lo) {
  const uint32_t bits = weight == weight ? __builtin_bit_cast(uint32_t, weight) : 0x7FC00000U;
  const uint32_t high = (bits + 0x8000U) >> 16;
  hi = static_cast<uint16_t>(high);
  lo = static_cast<int16_t>(static_cast<uint16_t>(bits - (high << 16)));
}

// n numbers from `begin` on, whose weights are at w.
void update(const AdamW& a, int64_t begin, float* w, int64_t n) {
  const float* gradient = a.gradient + begin;
  float *first = a.first_moment + begin, *second = a.second_moment + begin;
  const auto numbers = [&](int64_t i, int64_t count) {
    const Vector g = Vector::loadu(gradient + i, count) * Vector(a.coefficient);
    const Vector before = Vector::loadu(first + i, count);
    const Vector m = at::vec::fmadd(Vector(a.one_minus_beta1), g - before, before);
    const Vector v = Vector::loadu(second + i, count) * Vector(a.beta2) + Vector(a.one_minus_beta2) * g * g;
    const Vector root = v.sqrt() / Vector(a.root_correction) + Vector(a.eps);
    const Vector weight = Vector::loadu(w + i, count) * Vector(a.kept) - Vector(a.step_size) * m / root;
    m.store(first + i, static_cast<int>(count));
    v.store(second + i, static_cast<int>(count));
    weight.store(w + i, static_cast<int>(count));
  };
  int64_t i = 0;
  for (; i + Vector::size() <= n; i += Vector::size()) numbers(i, Vector::size());
  if (i < n) numbers(i, n - i);
}

void adamw(const AdamW& a, int64_t begin, int64_t end) {
  if (a.type == Number::f32) return update(a, begin, static_cast<float*>(a.weight) + begin, end - begin);
  constexpr int64_t at_once = 1024;  // so many joined weights stay in the nearest cache
  alignas(64) float w[at_once];
  for (; begin < end; begin += at_once) {
    const int64_t n = end - begin < at_once ? end - begin : at_once;
    uint16_t* __restrict hi = static_cast<uint16_t*>(a.weight) + begin;
    int16_t* __restrict lo = a.remainder + begin;
    for (int64_t i = 0; i < n; ++i) w[i] = joined(hi[i], lo[i]);
    update(a, begin, w, n);
    for (int64_t i = 0; i < n; ++i) split(w[i], hi[i], lo[i]);
  }
}

}  // namespace
}  // namespace model::cpu
