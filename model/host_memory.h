// The recipe's host_memory field, applied to the process.
#pragma once

#include "model/recipe.h"

namespace model {

// Call it before the process allocates its first tensor; it cannot be undone. With `keep`, glibc serves big blocks from
// its heap and never returns them, and c10 asks for transparent huge pages.
void apply_host_memory(HostMemory policy);

}  // namespace model
