// Head and cross-entropy as one operation: what a device does for it. The logits (n, V) of a chunk of rows are of the
// products' type, losses (n) float32, targets (n) int64. Columns from `vocabulary` on are padding.
#pragma once

#include "ablations/techniques/cross_entropy/chunks.h"
#include "ablations/techniques/products/linear.h"

#include <cstdint>

namespace model {

struct HeadLossKernels {
  // Writes the rows' losses. If `differentiated`, the logits' gradient times `scale` takes their place; else it may.
  // `fp8`: a GPU makes an fp8 copy of that gradient, too.
  void (*loss)(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& losses, int64_t vocabulary,
               float scale, bool differentiated, bool fp8);
  // (N) -> 0-dim
  at::Tensor (*mean)(const at::Tensor& losses);
  // Multiplies by a 0-dim float32.
  void (*scale)(const at::Tensor& gradient, const at::Tensor& factor);
  // Throws if the loss was multiplied by another factor than the gradients were made for. Null on a GPU: to compare
  // them it would wait for the device.
  void (*check_factor)(const at::Tensor& found, double expected);
};

extern const HeadLossKernels head_loss_on_cpu, head_loss_on_cuda;

// Its backward pass can be made only once.
decltype(Ops::head_loss) fused_head_loss(const HeadLossKernels& kernels, const LinearProducts& products,
                                         int64_t chunk_bytes, Gradients* gradients);

// in_place.cpp: the same loss, and the same gradient except for the rounding of the targets' entries. It has one matrix
// (B T, V) from the forward pass to the end of the backward pass. Its backward pass can be made only once.
decltype(Ops::cross_entropy) in_place_cross_entropy();

}  // namespace model
