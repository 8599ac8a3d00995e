#include "ablations/techniques/operations.h"
#include "model/precision.h"

#include <ATen/autocast_mode.h>

namespace model {

using at::Tensor;

namespace {

// The residual stream in 16 bits: the embedding gives 16 bits, and LayerNorm reads and writes them (autocast alone
// would make LayerNorm float32). On a CPU ATen then also adds up the gradients of weight and bias in 16 bits, row by
// row.
void keep_residual_in(at::ScalarType type, Ops& ops) {
  ops.embed = [embed = ops.embed, type](const Tensor& tokens, const Tensor& wte, const Tensor& wpe) {
    return embed(tokens, wte, wpe).to(type);
  };
  ops.layer_norm = [](const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
    const auto cast = [&](const Tensor& t) {
      return at::autocast::cached_cast(x.scalar_type(), t, x.device().type());  // autocast's own, cache and all
    };
    const Tensor scale = cast(weight), shift = cast(bias);
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    return at::layer_norm(x, {x.size(-1)}, scale, shift, eps);
  };
}

}  // namespace

void install_residual(const Recipe& recipe, Gradients* /*gradients*/, Ops& ops) {
  if (recipe.residual == Residual::autocast) keep_residual_in(scalar_type(recipe.autocast), ops);
}

}  // namespace model
