#include "ablations/techniques/fingerprint.h"
#include "ablations/techniques/observers.h"
#include "model/trainer.h"

namespace ablations {

void observe_autocast(model::Trainer& trainer, Observations& seen) {
  seen.fingerprint.autocast = fingerprint(trainer.recipe(), /*with_autocast=*/true);
  seen.loss_scale = trainer.loss_scale();
}

}  // namespace ablations
