// What the C library does with the host's memory of freed tensors.

#include "ablations/techniques/technique.h"

#include "text/figures.h"

#include <fmt/format.h>

#include <cmath>

namespace ablations {

using namespace model;

namespace {

std::optional<Proof> prove_host_memory(const Recipe& recipe, const RunFacts& facts) {
  if (recipe.device == Device::cuda) return {};  // a step's tensors are not in host memory
  const int64_t refaults = facts.observations.refault.faults;
  const std::string observed = fmt::format("{} for 64 MiB allocated again; {} per step", number_of(refaults, "fault"),
                                           number_of(std::llround(facts.page_faults_per_step), "fault"));
  // One sign alone could be chance: the heap may have the block free, or a small model may not fault.
  const double most = 0.01 * static_cast<double>(facts.peak_bytes) / 4096.0;
  const bool kept = refaults <= 8 && facts.page_faults_per_step <= most;
  if (recipe.host_memory == HostMemory::release) {
    return Proof{
        "host_memory", !kept,
        "freed memory faults in anew: 64 MiB, or more than " + number_of(std::llround(most), "fault") + " per step",
        observed};
  }
  return Proof{"host_memory", kept,
               fmt::format("64 MiB freed and allocated again stay mapped (at most 8 faults); a step faults in at most "
                           "1 % of the process's pages ({:.0f})",
                           most),
               observed};
}

}  // namespace

Technique host_memory() {
  return {
      .field = "host_memory",
      .optimizations = {{.name = "memory",
                         .title = "keep host memory",
                         .summary = "The C library keeps the memory of freed tensors instead of handing it back to the "
                                    "kernel, which would zero it and fault it in again page by page at the next step. "
                                    "Results do not change by a bit.",
                         .edit = [](Recipe& r, const harness::Machine&) { r.host_memory = HostMemory::keep; },
                         .pointless = [](const Recipe& recipe, const harness::Machine&) -> std::string {
                           return recipe.device == Device::cpu ? "" : "an optimization of steps on the CPU";
                         }}},
      .prove = prove_host_memory,
  };
}

}  // namespace ablations
