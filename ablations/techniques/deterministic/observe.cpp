#include "ablations/techniques/observers.h"
#include "model/precision.h"
#include "model/trainer.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <cstdlib>

namespace ablations {

// Observes the switches as ATen has them. Also observes what ATen does with an operation whose result may depend on the
// order of threads: put_ with a repeated index.
void observe_determinism(model::Trainer& trainer, Observations& seen) {
  const at::Context& context = at::globalContext();
  auto& found = seen.determinism;
  try {
    const at::NoGradGuard no_grad;
    const auto on_device = at::TensorOptions().device(model::device_type(trainer.recipe().device));
    at::zeros({2}, on_device).put_(at::zeros({2}, on_device.dtype(at::kLong)), at::ones({2}, on_device));
    found.refuses = false;
  } catch (const c10::Error& error) {
    found.refuses = std::string(error.what_without_backtrace()).find("deterministic") != std::string::npos;
    if (!found.refuses) throw;
  }
  found.algorithms = context.deterministicAlgorithms() && !context.deterministicAlgorithmsWarnOnly();
  found.cudnn_deterministic = context.deterministicCuDNN();
  found.cudnn_benchmark = context.benchmarkCuDNN();
  if (const char* workspace = std::getenv("CUBLAS_WORKSPACE_CONFIG")) found.cublas_workspace = workspace;
}

}  // namespace ablations
