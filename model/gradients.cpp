#include "model/gradients.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace model {

using at::Tensor;

namespace {

// "h.11." of a matrix of a layer. Empty for all others, which are complete only when a backward pass ends.
std::string layer_of(const Parameter& parameter) {
  const bool is_matrix = parameter.tensor.dim() == 2 && parameter.name.starts_with("h.");
  return is_matrix ? parameter.name.substr(0, parameter.name.find('.', 2)) : "";
}

}  // namespace

Gradients::Gradients(const std::vector<Parameter>& parameters, void (*finish)(Gradients&))
    : finish_(finish), parameters_(parameters) {
  std::vector<Parameter> order(parameters.rbegin(), parameters.rend());
  std::ranges::stable_partition(order, [](const Parameter& one) { return !layer_of(one).empty(); });
  constexpr int64_t alignment = 4, of_values = 2;  // numbers
  std::vector<int64_t> begins;
  int64_t size = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || layer_of(order[i]) != layer_of(order[i - 1])) chunks_.push_back({.begin = size});
    ++chunks_.back().weights;
    places_[order[i].tensor.unsafeGetTensorImpl()] = {.chunk = chunks_.size() - 1};
    begins.push_back(size);
    size += (order[i].tensor.numel() + alignment - 1) / alignment * alignment;
  }
  buffer_ = at::zeros({size + of_values}, order.front().tensor.options().requires_grad(false).dtype(at::kFloat));
  for (size_t i = 0; i < order.size(); ++i) {
    const Tensor& weight = order[i].tensor;
    weight.set_requires_grad(false);
    weight.mutable_grad() = buffer_.narrow(0, begins[i], weight.numel()).view(weight.sizes());
  }
}

void Gradients::begin_step(double loss_factor) {
  loss_factor_ = loss_factor;
  ++steps_;
  reduce_ = nullptr;
  for (auto& [weight, own] : places_) own.written = false;
}

void Gradients::reduce_chunk() {
  const int64_t begin = chunks_[chunk_].begin;
  written_ = 0;
  ++chunk_;
  (*reduce_)(buffer_.slice(0, begin, chunk_ < chunks_.size() ? chunks_[chunk_].begin : buffer_.numel()));
}

// A weight's work is enqueued before the next weight's place is asked for.
void Gradients::reduce_if_complete() {
  const bool is_last = chunk_ + 1 >= chunks_.size();
  if (reduce_ != nullptr && !is_last && written_ == chunks_[chunk_].weights) reduce_chunk();
}

Gradients::Place Gradients::place_of(const Tensor& weight) {
  const auto found = places_.find(weight.unsafeGetTensorImpl());
  if (found == places_.end()) throw std::logic_error("Gradients::place_of: the tensor is no parameter of the model");
  reduce_if_complete();
  if (found->second.chunk == chunk_) ++written_;
  return {.buffer = weight.grad(), .accumulate = std::exchange(found->second.written, true)};
}

bool Gradients::has(const Tensor& weight) const { return places_.contains(weight.unsafeGetTensorImpl()); }

void Gradients::backward(const Tensor& loss, const Reduce& reduce) {
  reduce_ = reduce ? &reduce : nullptr;
  chunk_ = written_ = 0;
  loss.backward();
  reduce_if_complete();
  if (finish_ != nullptr) finish_(*this);
  if (!reduce) return;
  if (chunk_ + 1 != chunks_.size()) {
    throw std::logic_error("Gradients::backward: the pass did not complete the layers from the last to the first");
  }
  reduce_chunk();
  reduce_ = nullptr;
}

Tensor Gradients::values() const { return buffer_.narrow(0, buffer_.numel() - 2, 2); }

Gradients::Place place_for(Gradients* gradients, const Tensor& weight) {
  if (gradients != nullptr) return gradients->place_of(weight);
  return {.buffer = at::empty(weight.sizes(), weight.options().requires_grad(false).dtype(at::kFloat))};
}

void put(const Gradients::Place& place, const Tensor& gradient) {
  Tensor buffer = place.buffer;
  place.accumulate ? buffer.add_(gradient) : buffer.copy_(gradient);
}

Tensor deliver(Gradients* gradients, const Tensor& weight, const Tensor& gradient) {
  if (gradients == nullptr) return gradient;
  put(gradients->place_of(weight), gradient);
  return {};
}

}  // namespace model
