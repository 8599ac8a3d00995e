// Gradients that a kernel has summed over strips of rows (column_sum.h), and that are still to be added up.
#pragma once

#include "model/gradients.h"

#include <ATen/ATen.h>

namespace model {

// place.buffer (C) float32 <- the sum over `strips` (strips, C) float32, or added to it. At once if `gradients` is
// null, else by the add_up_left() that follows, or as soon as more is left than L2 holds.
void add_up(Gradients* gradients, const at::Tensor& strips, const Gradients::Place& place);

// x (N, C), by rows -> the sums of its columns over strips of rows (strips, C)
at::Tensor strips_of(const at::Tensor& x);

// What was left in a backward pass, in one launch.
void add_up_left(Gradients& gradients);

}  // namespace model
