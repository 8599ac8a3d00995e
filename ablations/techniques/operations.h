// The operations of a step under a recipe: the model's reference table (model/ops.h), in which each technique replaces
// its own.
#pragma once

#include "model/gradients.h"
#include "model/ops.h"
#include "model/recipe.h"
#include "model/trainer.h"

namespace model {

// Replaces what the recipe's value of one field replaces. With `gradients`, which must outlive the table, the
// operations of a training step write the weights' gradients there.
using Install = void(const Recipe& recipe, Gradients* gradients, Ops& ops);

// Each in its technique's folder.
Install install_products, install_norm, install_mlp, install_cross_entropy, install_qkv_products, install_qkv_gradient,
    install_attention, install_residual, install_weights, install_fp8;

// Products first: others are made of them. The embedding's gradient late: it reads the stream's own type. fp8 copies
// last: they are made before the embedding.
inline constexpr Install* installed_in_order[] = {
    install_products,     install_norm,      install_mlp,      install_cross_entropy, install_qkv_products,
    install_qkv_gradient, install_attention, install_residual, install_weights,       install_fp8};

// All of them. Throws c10::Error for a recipe whose operations this program was built without.
Ops ops_for(const Recipe& recipe, Gradients* gradients = nullptr);

// The same for a Trainer, with the update of master weights.
StepParts step_parts();

}  // namespace model
