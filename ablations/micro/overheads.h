#pragma once

#include "ablations/micro/suite.h"
#include "model/recipe.h"

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <vector>

namespace ablations::micro {

// The least work of one call of an operation by itself. A small operation's is counted from its tensors: FLOPs are
// those of ablations/techniques/step_table.h, but bytes differ, because there the neighbouring operations decide the
// types of a tensor.

struct Cost {
  double flops = 0;  // of matrix products only, by ablations/techniques/step_table.h
  double bytes = 0;  // every input read once, every result written once
};

// Of one call under the names of calls.h; inputs and outputs as it saw them.
Cost cost_of_forward(const std::string& call, const std::vector<at::Tensor>& inputs,
                     const std::vector<at::Tensor>& outputs);
Cost cost_of_backward(const std::string& call, const std::vector<at::Tensor>& inputs,
                      const std::vector<at::Tensor>& outputs);

// Of one call of a large operation, as ablations/techniques/step_table.h counts it in a step under the recipe; `phase`:
// "forward" or "backward". None for a small one.
std::optional<Cost> cost_in_a_step(const std::string& call, const std::string& phase, const model::Recipe& recipe,
                                   const Sizes& sizes);

}  // namespace ablations::micro
