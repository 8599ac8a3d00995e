// The MLP as one operation: what a device does of it. x (N, C), fc and hidden (N, 4C) of the products' type.
#pragma once

#include "ablations/techniques/products/linear.h"

namespace model {

struct MlpKernels {
  struct Hidden {
    at::Tensor fc;      // what GELU reads; its bias may be left out, as the backward pass of the same table knows
    at::Tensor hidden;  // what it makes
  };
  Hidden (*forward)(const LinearProducts& products, const at::Tensor& x, const at::Tensor& w_fc,
                    const at::Tensor& b_fc);

  // Whether `hidden` is kept for the backward pass; else that makes it once more.
  bool keeps_hidden;

  struct Backward {
    at::Tensor d_fc, hidden;
    at::Tensor d_b_fc;  // undefined where `gradients` has its place, where it was put
  };
  // `kept`: fc, and hidden where it is kept.
  Backward (*backward)(const LinearProducts& products, Gradients* gradients, const at::Tensor& dy,
                       const at::Tensor& w_proj, const at::Tensor& b_fc, const Hidden& kept);
};

extern const MlpKernels mlp_on_cpu, mlp_on_cuda;

decltype(Ops::mlp) fused_mlp(const MlpKernels& kernels, const LinearProducts& products, Gradients* gradients);

}  // namespace model
