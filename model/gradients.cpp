#include "model/gradients.h"

#include "ablations/techniques/products/products.h"

#include <stdexcept>
#include <utility>

namespace model {

using at::Tensor;

Gradients::Gradients(const std::vector<Parameter>& parameters) {
  for (const Parameter& parameter : parameters) {
    const Tensor& weight = parameter.tensor;
    weight.set_requires_grad(false);
    weight.mutable_grad() = at::zeros(weight.sizes(), weight.options().dtype(at::kFloat));
    written_[weight.unsafeGetTensorImpl()] = false;
  }
}

void Gradients::begin_step(double loss_factor) {
  loss_factor_ = loss_factor;
  for (auto& [weight, written] : written_) written = false;
}

Gradients::Place Gradients::place_of(const Tensor& weight) {
  const auto found = written_.find(weight.unsafeGetTensorImpl());
  if (found == written_.end()) throw std::logic_error("Gradients::place_of: the tensor is no parameter of the model");
  return {.buffer = weight.grad(), .accumulate = std::exchange(found->second, true)};
}

Gradients::Place place_for(Gradients* gradients, const Tensor& weight) {
  if (gradients != nullptr) return gradients->place_of(weight);
  return {.buffer = at::empty(weight.sizes(), weight.options().requires_grad(false).dtype(at::kFloat))};
}

Tensor deliver(Gradients* gradients, const Tensor& weight, const Tensor& gradient) {
  if (gradients == nullptr) return gradient;
  const Gradients::Place place = gradients->place_of(weight);
  place.accumulate ? place.buffer.add_(gradient) : place.buffer.copy_(gradient);
  return {};
}

Tensor deliver_product(Products kind, Gradients* gradients, const Tensor& weight, const Tensor& a, const Tensor& b) {
  if (gradients == nullptr) return product(kind, a, b);
  const Gradients::Place place = gradients->place_of(weight);
  product_into(kind, place.buffer, a, b, place.accumulate);
  return {};
}

int64_t handle_of(Gradients* gradients) { return reinterpret_cast<int64_t>(gradients); }

Gradients* gradients_of(int64_t handle) {
  return reinterpret_cast<Gradients*>(handle);  // NOLINT(performance-no-int-to-ptr): handle_of's
}

}  // namespace model
