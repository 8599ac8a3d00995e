#include "harness/machine/machine.h"
#include "results/environment.h"

namespace results {

Environment environment_here() {
  const auto text_or_none = [](const std::string& text) { return text.empty() ? std::nullopt : std::optional(text); };
  const harness::Machine& machine = harness::this_machine();
  const harness::Software software = harness::software();
  Environment here = environment_of_program();
  here.no_gpu_reason = text_or_none(machine.no_gpu_reason);
  here.driver_cuda = text_or_none(software.driver_cuda);
  here.cuda = text_or_none(software.cuda);
  here.cudnn = software.cudnn;
  here.torch = software.torch;
  here.mkl = software.mkl;
  here.onednn = software.onednn;
  here.torch_cpu_capability = software.torch_cpu_capability;
  here.threads = harness::operation_threads();
  if (machine.gpu) {
    here.gpu = Environment::Gpu{.name = machine.gpu->name,
                                .compute_capability = machine.gpu->compute_capability,
                                .memory_bytes = machine.gpu->memory_bytes};
  }
  return here;
}

}  // namespace results
