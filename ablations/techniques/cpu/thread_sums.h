// What operations of our own share: number types, sums over rows by several threads, and how observers find them.
#pragma once

#include "ablations/techniques/cpu/kernels.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/SequenceNumber.h>
#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>

#include <cstdint>

namespace model {

// Rows that one thread does at least.
constexpr int64_t rows_at_once = 8;

inline cpu::Number number_of(at::ScalarType type) {
  TORCH_CHECK(type == at::kFloat || type == at::kBFloat16,
              "the fused operations of a CPU know float32 and bfloat16, not ", at::toString(type));
  return type == at::kFloat ? cpu::Number::f32 : cpu::Number::bf16;
}
inline cpu::Number number_of(const at::Tensor& x) { return number_of(x.scalar_type()); }

// The type as which a matrix product would read `x`: autocast's, else its own.
inline at::ScalarType product_type(const at::Tensor& x) {
  const at::DeviceType device = x.device().type();
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device) : x.scalar_type();
}

// The weight as a matrix product would read it, through autocast's cache.
inline at::Tensor product_copy(const at::Tensor& weight, at::ScalarType type) {
  return at::autocast::cached_cast(type, weight, weight.device().type());
}

// `size` sums of float32 for each thread. They are added up in the threads' order, so the same number of threads gives
// the same result.
class ThreadSums {
 public:
  ThreadSums(int64_t size, const at::Tensor& like)
      : sums_(at::zeros({at::get_num_threads(), size}, like.options().requires_grad(false).dtype(at::kFloat))) {}
  [[nodiscard]] float* of_this_thread() const {
    return sums_.mutable_data_ptr<float>() + at::get_thread_num() * sums_.size(1);
  }
  [[nodiscard]] at::Tensor total() const { return sums_.sum(0); }

 private:
  at::Tensor sums_;
};

// While it lives, observers see an operation of this name, with the sequence number by which its backward node is
// found. A dispatched operation tells them by itself. A loop of our own in a backward pass needs one, too. On a CPU a
// trace takes for idle time what observers do not see.
class Node {
 public:
  explicit Node(const char* name) : guard_(at::RecordScope::FUNCTION) {
    if (guard_.isActive()) guard_.before(name, static_cast<int64_t>(at::sequence_number::peek()));
  }

 private:
  at::RecordFunction guard_;
};

}  // namespace model
