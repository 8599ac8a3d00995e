#include "model/gradients.h"

#include <stdexcept>
#include <utility>

namespace model {

using at::Tensor;

Gradients::Gradients(const std::vector<Parameter>& parameters) : parameters_(parameters) {
  for (const Parameter& parameter : parameters) {
    const Tensor& weight = parameter.tensor;
    weight.set_requires_grad(false);
    weight.mutable_grad() = at::zeros(weight.sizes(), weight.options().dtype(at::kFloat));
    written_[weight.unsafeGetTensorImpl()] = false;
  }
}

void Gradients::begin_step(double loss_factor) {
  loss_factor_ = loss_factor;
  ++steps_;
  for (auto& [weight, written] : written_) written = false;
}

Gradients::Place Gradients::place_of(const Tensor& weight) {
  const auto found = written_.find(weight.unsafeGetTensorImpl());
  if (found == written_.end()) throw std::logic_error("Gradients::place_of: the tensor is no parameter of the model");
  return {.buffer = weight.grad(), .accumulate = std::exchange(found->second, true)};
}

bool Gradients::has(const Tensor& weight) const { return written_.contains(weight.unsafeGetTensorImpl()); }

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
