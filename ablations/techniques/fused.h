// What the fused operations' techniques share.
#pragma once

#include "harness/machine/machine.h"
#include "model/recipe.h"
#include "results/observations.h"

#include <string>

namespace ablations {

// Why none of them can be executed under the recipe; empty: they can. Autocast's type decides, and the device.
std::string fused_obstacle(const model::Recipe& recipe, const harness::Machine& machine);

// Why its products cannot be packed under the recipe's autocast; empty: they can.
std::string packed_obstacle(const model::Recipe& recipe, const harness::Machine& machine);

// How many linear layers of a block are nodes of their own in autograd's graph. Query, key and value are one or three.
// The others are attention's projection, and the MLP's two unless it is one operation. The head has no bias and does
// not count.
int64_t linear_layers(const model::Recipe& recipe);

// The type of those nodes.
const char* linear_node(const model::Recipe& recipe);

// Nodes of the operation `type` in autograd's graph of a step. Its name there is a C++ type's and longer.
int64_t nodes_of(const Counts& nodes, const std::string& type);

}  // namespace ablations
