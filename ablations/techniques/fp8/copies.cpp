#include "ablations/techniques/fp8/copies.h"

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <mutex>
#include <utility>

namespace model::fp8 {

using at::Tensor;

namespace {

// By the original's memory. A weak reference keeps the key from being another's.
template <class Value>
class ByStorage {
 public:
  void put(const Tensor& of, Value value) {
    std::erase_if(entries_, [](const auto& entry) { return entry.second.first.expired(); });
    entries_.insert_or_assign(of.storage().unsafeGetStorageImpl(),
                              std::pair(of.storage().getWeakStorageImpl(), std::move(value)));
  }
  Value* find(const Tensor& of) {
    const auto found = entries_.find(of.storage().unsafeGetStorageImpl());
    return found == entries_.end() ? nullptr : &found->second.second;
  }
  void forget(const Tensor& of) { entries_.erase(of.storage().unsafeGetStorageImpl()); }

 private:
  using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;
  std::map<const c10::StorageImpl*, std::pair<Weak, Value>> entries_;
};

// The copy of a matrix that begins at `offset` of its memory.
struct Activation {
  int64_t offset;
  Fp8Matrix copy;
};

struct State {
  std::mutex mutex;
  ByStorage<Fp8Weight> weights;
  ByStorage<Tensor> norm_scales;
  ByStorage<bool> copied_gradients;
  ByStorage<Activation> activations;
  std::map<std::string, int64_t> counts;
};

State& state() {
  static State one;
  return one;
}

}  // namespace

void put_weight(const Tensor& weight, const Fp8Weight& copy) {
  const std::lock_guard lock(state().mutex);
  state().weights.put(weight, copy);
}

std::optional<Fp8Weight> weight_of(const Tensor& weight) {
  const std::lock_guard lock(state().mutex);
  const Fp8Weight* const found = state().weights.find(weight);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

Tensor keep_maxima(const Tensor& weight) {
  const std::lock_guard lock(state().mutex);
  Fp8Weight* const found = state().weights.find(weight);
  if (found == nullptr) return {};
  found->are_maxima_kept = true;
  return found->maxima;
}

void put_norm_scale(const Tensor& weight, const Tensor& scale) {
  const std::lock_guard lock(state().mutex);
  state().norm_scales.put(weight, scale);
}

Tensor norm_scale_of(const Tensor& weight) {
  const std::lock_guard lock(state().mutex);
  const Tensor* const found = state().norm_scales.find(weight);
  return found == nullptr ? Tensor() : *found;
}

void put_copied_gradient(const Tensor& bias) {
  const std::lock_guard lock(state().mutex);
  state().copied_gradients.put(bias, true);
}

bool is_gradient_copied(const Tensor& bias) {
  const std::lock_guard lock(state().mutex);
  return bias.defined() && state().copied_gradients.find(bias) != nullptr;
}

void put(const Tensor& of, const Fp8Matrix& copy) {
  const std::lock_guard lock(state().mutex);
  state().activations.put(of, {of.storage_offset(), copy});
}

std::optional<Fp8Matrix> take(const Tensor& rows) {
  const std::lock_guard lock(state().mutex);
  const Activation* const found = state().activations.find(rows);
  if (found == nullptr) return std::nullopt;
  const Tensor &values = found->copy.values, &scales = found->copy.scales;
  const int64_t depth = values.size(1), first = (rows.storage_offset() - found->offset) / depth, count = rows.size(0);
  TORCH_CHECK(rows.is_contiguous() && rows.size(1) == depth && first >= 0 && first + count <= values.size(0),
              "fp8: rows of ", rows.sizes(), " are none of a copy of ", values.sizes());
  const Fp8Matrix part{values.narrow(0, first, count), scales.numel() == 1 ? scales : scales.narrow(0, first, count)};
  if (first + count == values.size(0)) state().activations.forget(rows);
  return part;
}

void count(const std::string& product) {
  const std::lock_guard lock(state().mutex);
  ++state().counts[product];
}

std::map<std::string, int64_t> counts() {
  const std::lock_guard lock(state().mutex);
  return state().counts;
}

}  // namespace model::fp8
