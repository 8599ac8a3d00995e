// Which recipes a peer, PyTorch, can run: ablations/peers/pytorch.json declares it.
#pragma once

#include "model/recipe.h"

#include <cstdint>
#include <string>

namespace ablations {

// Why this peer cannot do the work of a recipe: "PyTorch cannot do attention \"packed\"". Empty: it can. A field that
// its declaration does not name must have its plain value. tokens: of a batch, B * T. Throws std::invalid_argument
// where the declaration cannot be read.
std::string peer_obstacle(const model::Recipe& recipe, const std::string& peer, int64_t tokens);

// How far a peer's losses may differ for how it computes, in nats: 2e-2 in fp8, else 0.
double peer_tolerance(const std::string& peer);

}  // namespace ablations
