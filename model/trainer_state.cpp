// What a trainer keeps from step to step, in and out.
#include "model/trainer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

namespace model {

using at::Tensor;

std::map<std::string, Tensor> Trainer::state() const {
  std::map<std::string, Tensor> tensors = optimizer_.state();
  const int64_t words = model_.config().vocabulary, padding = model_.vocabulary_rows() - words;
  for (const Parameter& parameter : model_.parameters()) {
    if (padding == 0 || parameter.name != "wte.weight") continue;
    const auto rows = [&](const Tensor& of) { return of.detach().narrow(0, words, padding); };
    tensors["padding." + parameter.name] = rows(parameter.tensor);
    if (parameter.remainder.defined()) tensors["padding_remainder." + parameter.name] = rows(parameter.remainder);
  }
  if (scaler_) {
    tensors["scaler.scale"] = scaler_->scale;
    tensors["scaler.growth_tracker"] = scaler_->growth_tracker;
    tensors["scaler.skipped"] = scaler_->skipped;
  }
  return tensors;
}

void Trainer::load_state(const std::map<std::string, Tensor>& tensors, const std::string& where) {
  const std::map<std::string, Tensor> own = state();
  const auto refuse = [&](const std::string& name, const std::string& why) {
    throw std::invalid_argument(fmt::format("{}: tensor \"{}\" {}", where, name, why));
  };
  for (const auto& [name, tensor] : own) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) refuse(name, "is missing");
    const Tensor& given = found->second;
    if (given.sizes() != tensor.sizes() || given.scalar_type() != tensor.scalar_type()) {
      refuse(name, fmt::format("must be {} of shape ({}), got {} of shape ({})", at::toString(tensor.scalar_type()),
                               fmt::join(tensor.sizes(), ", "), at::toString(given.scalar_type()),
                               fmt::join(given.sizes(), ", ")));
    }
  }
  for (const auto& [name, given] : tensors) {
    if (!own.contains(name)) refuse(name, "is not a part of this training's state");
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : own) tensor.copy_(tensors.at(name));
}

}  // namespace model
