#include "ablations/techniques/operations.h"

#include "ablations/techniques/weights/master_adamw.h"

namespace model {

Ops ops_for(const Recipe& recipe, Gradients* gradients) {
  Ops ops = reference_ops();
  for (Install* install : installed_in_order) install(recipe, gradients, ops);
  return ops;
}

StepParts step_parts() { return {.ops = ops_for, .update = master_adamw}; }

}  // namespace model
