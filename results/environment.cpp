#include "results/environment.h"

#include "harness/machine/machine.h"

namespace results {

namespace {

std::optional<std::string> text_or_none(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace

Environment environment_of_program() {
  const harness::Cpu& cpu = harness::this_cpu();
  const harness::Software software = harness::own_software();
  const harness::Conditions conditions = harness::conditions();
  return {.cpu = {.model = cpu.model,
                  .online_cores = cpu.online_cores,
                  .logical_cores = cpu.logical_cores,
                  .features = cpu.features},
          .gpu = {},
          .driver = text_or_none(software.driver),
          .compiler = software.compiler,
          .compiler_flags = software.compiler_flags,
          .git_commit = software.git_commit,
          .git_dirty = software.git_dirty,
          .program_sha256 = software.program_sha256,
          .kernel_switches = harness::kernel_switches(),
          .governor = text_or_none(conditions.governor),
          .transparent_huge_pages = text_or_none(conditions.transparent_huge_pages),
          .load_average = std::vector<double>(conditions.load_average.begin(), conditions.load_average.end()),
          .kernel = software.kernel};
}

}  // namespace results
