#include "ablations/techniques/observers.h"
#include "model/trainer.h"

namespace ablations {

void observe_device(model::Trainer& trainer, Observations& seen) {
  seen.parameters_device = trainer.model().parameters().front().tensor.device().str();
}

}  // namespace ablations
