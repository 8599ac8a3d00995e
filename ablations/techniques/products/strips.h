// Gradients that a kernel has summed over strips of rows (column_sum.h), and that are still to be added up.
#pragma once

#include "model/gradients.h"

#include <ATen/ATen.h>

namespace model {

// place.buffer (C) float32 <- the sum over `strips` (strips, C) float32, or added to it.
void add_up(const at::Tensor& strips, const Gradients::Place& place);

}  // namespace model
