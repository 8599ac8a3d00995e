// Model FLOPs utilization: the FLOPs that the model needs, by MFU's formula, over what the device could have done in
// the same time. One peak serves all rungs of a device: its maker's dense figure for bf16, or for fp16 where it has no
// bf16. So MFU rises with tokens/s.
#pragma once

#include "harness/machine/peaks.h"
#include "model/recipe.h"
#include "results/mfu.h"

#include <string>

namespace ablations {

// What matrix products are made in: autocast's type, else TF32 where a GPU may take it for float32, else fp32. On a CPU
// the recipe does not say how oneDNN makes float32 products.
harness::NumberType multiplied_in(const model::Recipe& recipe);

// `gpu`: the device's name, empty where there is none. flops_per_step: Config::flops_per_token times tokens.
Mfu mfu(const model::Recipe& recipe, const std::string& gpu, double flops_per_step, double ms_per_step);

}  // namespace ablations
