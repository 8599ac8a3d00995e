#include "ablations/techniques/operations.h"

#include "ablations/techniques/cuda/built.h"
#include "ablations/techniques/products/strips.h"
#include "ablations/techniques/weights/master_adamw.h"

namespace model {

Ops ops_for(const Recipe& recipe, Gradients* gradients) {
  Ops ops = reference_ops();
  for (Install* install : installed_in_order) install(recipe, gradients, ops);
  return ops;
}

namespace {

void finish_gradients(Gradients& gradients) {
  if constexpr (has_cuda_kernels) add_up_left(gradients);
}

}  // namespace

StepParts step_parts() { return {.ops = ops_for, .update = master_adamw, .finish = finish_gradients}; }

}  // namespace model
