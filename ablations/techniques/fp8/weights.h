// Copies of a step's weights in fp8 (copies.h). They are made before a step's first product reads them, so they are the
// updated weights', also in a step that is replayed.
#pragma once

#include "model/gradients.h"
#include "model/recipe.h"

#include <functional>
#include <string>
#include <vector>

namespace model {

// A weight whose products are made in fp8, and the LayerNorm that makes what it is multiplied by.
struct Fp8Parameter {
  std::string name;  // "c_fc"
  Parameter weight;
  at::Tensor norm_weight = {}, norm_bias = {};  // undefined where it is something else
  at::Tensor bias = {};                         // its own, where who makes its result's gradient copies that, too
};
std::vector<Fp8Parameter> fp8_parameters(const std::vector<Parameter>& all, Fp8 which);

// Gives the weights copies, and returns what makes them anew, on a GPU.
std::function<void()> cuda_weight_copies(const std::vector<Fp8Parameter>& parameters);

}  // namespace model
