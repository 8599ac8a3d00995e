#include "ablations/techniques/qkv_gradient/qkv_gradient.h"

#include "ablations/techniques/cuda/built.h"
#include "ablations/techniques/fp8/copies.h"
#include "ablations/techniques/operations.h"

namespace model {

void install_qkv_gradient(const Recipe& recipe, Gradients* gradients, Ops& ops) {
  if (recipe.qkv_gradient != QkvGradient::joined) return;
  if constexpr (has_cuda_kernels) {
    ops.qkv = [linear = ops.linear, gradients](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
      return joined_thirds(linear(x, weight, bias.detach()), bias, fp8::weight_of(weight).has_value(), gradients);
    };
  } else {
    TORCH_CHECK(false, "recipe: qkv_gradient joined needs a program that was built with its CUDA kernels");
  }
}

}  // namespace model
