#include "ablations/techniques/observers.h"

namespace ablations {

using model::Trainer;

// Each in the folder of its technique.
void observe_device(Trainer& trainer, Observations& seen);
void observe_host_memory(Trainer& trainer, Observations& seen);
void observe_matmul_precision(Trainer& trainer, Observations& seen);
void observe_autocast(Trainer& trainer, Observations& seen);
void watch_residual(model::Ops& ops, Observations& seen);
void observe_determinism(Trainer& trainer, Observations& seen);

const std::vector<Observer>& observers() {
  static const std::vector<Observer> all{
      {.observe = observe_device},   {.observe = observe_host_memory}, {.observe = observe_matmul_precision},
      {.observe = observe_autocast}, {.watch = watch_residual},        {.observe = observe_determinism}};
  return all;
}

}  // namespace ablations
