// The gradients' norm, and clipping and AdamW in one pass over all master weights. On a CPU by the loops of
// cpu/kernels.h, on a GPU by the kernels of gradient_norm.cu and adamw.cu.
#pragma once

#include "model/optimizer.h"

#include <memory>
#include <vector>

namespace model {

// On the weights' device. All tensors are contiguous.
std::unique_ptr<const MasterUpdate> master_adamw(std::vector<MasterWeight> weights);

// Takes the learning rate as a number of the host's.
std::unique_ptr<const MasterUpdate> cpu_master_adamw(std::vector<MasterWeight> weights);

// Reads what changes from step to step from the device, so that a captured step can be replayed. Waits for the device
// once, here.
std::unique_ptr<const MasterUpdate> cuda_master_adamw(std::vector<MasterWeight> weights);

}  // namespace model
