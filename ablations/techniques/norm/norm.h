// Residual addition and LayerNorm as one operation: what a device does for it. N rows of C numbers. x has the stream's
// type, y the branch's, `normalized` the products'. weight, bias (C), mean and rstd (N) are float32.
#pragma once

#include "model/gradients.h"
#include "model/ops.h"

namespace model {

struct AddNormKernels {
  // y may be undefined; then sum is x.
  struct Forward {
    const at::Tensor &x, &y, &weight, &bias;
    const at::Tensor &sum, &normalized, &mean, &rstd;  // written
    double eps;
  };
  void (*forward)(const Forward &call);

  // d_sum, what comes along the stream, may be undefined. dy is undefined where the branch's gradient is dx.
  struct Backward {
    const at::Tensor &d_sum, &d_normalized, &sum, &weight, &mean, &rstd;
    const at::Tensor &added_bias;               // of the layer that made y; undefined: nobody asks for its gradient
    const at::Tensor &dx, &dy;                  // written
    const Gradients::Place &d_weight, &d_bias;  // written or added to; a GPU may leave it to `gradients`
    const Gradients::Place &d_added_bias;       // alike: the sum of y's gradient over rows; no buffer: not wanted
    Gradients *gradients;
  };
  void (*backward)(const Backward &call);
};

extern const AddNormKernels add_norm_on_cpu, add_norm_on_cuda;

decltype(Ops::add_norm) fused_add_norm(const AddNormKernels &kernels, Gradients *gradients);

}  // namespace model
