#include "ablations/techniques/operations.h"

#include "ablations/techniques/weights/master_adamw.h"

namespace model {

Ops ops_for(const Recipe& recipe, Gradients* gradients) {
  // Products first: others are made of them. The embedding's gradient last: it reads the stream's own type.
  static constexpr Install* in_order[] = {install_products,      install_norm,         install_mlp,
                                          install_cross_entropy, install_qkv_products, install_attention,
                                          install_residual,      install_weights};
  Ops ops = reference_ops();
  for (Install* install : in_order) install(recipe, gradients, ops);
  return ops;
}

StepParts step_parts() { return {.ops = ops_for, .update = master_adamw}; }

}  // namespace model
