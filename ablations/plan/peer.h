// Which recipes a peer, PyTorch, can run: ablations/peers/pytorch.json declares it.
#pragma once

#include "model/recipe.h"

#include <string>

namespace ablations {

// Why PyTorch cannot do the work of a recipe: "PyTorch cannot do attention \"packed\"". Empty: it can. A field that its
// declaration does not name must have its plain value. Throws std::invalid_argument where the declaration cannot be
// read.
std::string peer_obstacle(const model::Recipe& recipe);

// The recipe as PyTorch's record has it. Fields of our own operations have their plain value, because the record does
// not name them. Throws as peer_obstacle does.
model::Recipe peer_recipe(const model::Recipe& recipe);

}  // namespace ablations
