// Model FLOPs utilization: the FLOPs that the model needs, by MFU's formula, over what the device could have done in
// the same time by its maker's figure for the number type that the recipe multiplies in. The peak depends on that type:
// a rung that is faster because its type is faster may have the smaller MFU.
#pragma once

#include "ablations/documents/mfu.h"
#include "harness/measure/peaks.h"
#include "model/recipe.h"

#include <string>

namespace ablations {

// What matrix products are made in: autocast's type, else TF32 where a GPU may take it for float32, else fp32. On a CPU
// the recipe does not say how oneDNN makes float32 products.
harness::NumberType multiplied_in(const model::Recipe& recipe);

// `gpu`: the device's name, empty where there is none. flops_per_step: Config::flops_per_token times tokens.
Mfu mfu(const model::Recipe& recipe, const std::string& gpu, double flops_per_step, double ms_per_step);

}  // namespace ablations
