#include "ablations/techniques/fingerprint.h"
#include "ablations/techniques/observers.h"
#include "model/trainer.h"

#include <ATen/Context.h>

namespace ablations {

void observe_matmul_precision(model::Trainer& trainer, Observations& seen) {
  const at::Float32MatmulPrecision aten = at::globalContext().float32MatmulPrecision();
  seen.matmul_precision.aten = aten == at::Float32MatmulPrecision::HIGHEST ? "highest"
                               : aten == at::Float32MatmulPrecision::HIGH  ? "high"
                                                                           : "medium";
  const bool on_cuda = trainer.recipe().device == model::Device::cuda;
  seen.matmul_precision.backend = at::precision2str(at::globalContext().float32Precision(
      on_cuda ? at::Float32Backend::CUDA : at::Float32Backend::MKLDNN, at::Float32Op::MATMUL));
  seen.fingerprint.float32 = fingerprint(trainer.recipe(), /*with_autocast=*/false);
}

}  // namespace ablations
