#include "results/environment.h"

#include "harness/machine/environment.h"

namespace ablations {

namespace {

std::optional<std::string> text_or_none(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace

Environment environment_here() {
  const harness::Machine& machine = harness::this_machine();
  const harness::Software software = harness::software();
  const harness::Conditions conditions = harness::conditions();
  Environment here{.cpu = {.model = machine.cpu.model,
                           .online_cores = machine.cpu.online_cores,
                           .logical_cores = machine.cpu.logical_cores,
                           .features = machine.cpu.features},
                   .gpu = {},
                   .no_gpu_reason = text_or_none(machine.no_gpu_reason),
                   .driver = text_or_none(software.driver),
                   .driver_cuda = text_or_none(software.driver_cuda),
                   .cuda = text_or_none(software.cuda),
                   .cudnn = software.cudnn,
                   .torch = software.torch,
                   .mkl = software.mkl,
                   .onednn = software.onednn,
                   .torch_cpu_capability = software.torch_cpu_capability,
                   .compiler = software.compiler,
                   .compiler_flags = software.compiler_flags,
                   .git_commit = software.git_commit,
                   .git_dirty = software.git_dirty,
                   .program_sha256 = software.program_sha256,
                   .threads = conditions.threads,
                   .kernel_switches = harness::kernel_switches(),
                   .governor = text_or_none(conditions.governor),
                   .transparent_huge_pages = text_or_none(conditions.transparent_huge_pages),
                   .load_average = std::vector<double>(conditions.load_average.begin(), conditions.load_average.end()),
                   .kernel = software.kernel};
  if (machine.gpu) {
    here.gpu = Environment::Gpu{.name = machine.gpu->name,
                                .compute_capability = machine.gpu->compute_capability,
                                .memory_bytes = machine.gpu->memory_bytes};
  }
  return here;
}

}  // namespace ablations
