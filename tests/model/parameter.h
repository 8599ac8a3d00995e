// A model's parameter by its name.
#pragma once

#include "model/gpt2.h"

#include <stdexcept>
#include <string>

inline const at::Tensor& parameter(const model::GPT2& gpt2, const std::string& name) {
  for (const model::Parameter& candidate : gpt2.parameters()) {
    if (candidate.name == name) return candidate.tensor;
  }
  throw std::runtime_error("no parameter " + name);
}
