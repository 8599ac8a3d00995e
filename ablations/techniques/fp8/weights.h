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

struct Fp8Update {
  // AdamW's kernel keeps the weights' maxima. This finds them where an operation of PyTorch's has written to a weight:
  // at the start, or from a checkpoint. Writes through Tensor::data() are not seen. Called before a step, because a
  // replayed step calls nothing.
  std::function<void()> find_maxima = [] {};
  // Makes the copies anew, and calls find_maxima first.
  std::function<void()> copy = [] {};
};
// Gives the weights copies, on a GPU.
Fp8Update cuda_weight_copies(const std::vector<Fp8Parameter>& parameters);

}  // namespace model
