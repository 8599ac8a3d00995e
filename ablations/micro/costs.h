// The least work of one call of an operation by itself, counted from its tensors. FLOPs are those of model/costs.h.
// Bytes differ, because there the neighbouring operations decide the types of a tensor.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

namespace micro {

struct Cost {
  double flops = 0;  // of matrix products only, by model/costs.h
  double bytes = 0;  // every input read once, every result written once
};

// Of one call under the names of calls.h; inputs and outputs as it saw them.
Cost cost_of_forward(const std::string& call, const std::vector<at::Tensor>& inputs,
                     const std::vector<at::Tensor>& outputs);
Cost cost_of_backward(const std::string& call, const std::vector<at::Tensor>& inputs,
                      const std::vector<at::Tensor>& outputs);

}  // namespace micro
