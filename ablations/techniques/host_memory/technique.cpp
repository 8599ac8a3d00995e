// What the C library does with the host's memory of freed tensors.

#include "ablations/techniques/technique.h"

#include "text/figures.h"

#include <fmt/format.h>

#include <cmath>

namespace ablations {

using namespace model;

namespace {

Text host_memory_text();

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
                         },
                         .text = host_memory_text()}},
      .prove = prove_host_memory,
  };
}

// ---- In words

namespace {

Text host_memory_text() {
  return {
      .mechanism = R"(A step allocates its tensors and frees them, and so does the next one. The C library asks the
kernel for each large block, and gives it back when it is freed. Before a process may see a page, the kernel zeroes
it, and the first touch of each page is a fault. The gradient of GPT-2's embedding alone has 50,257 x 768 numbers of
4 bytes, 154 MB: 37,700 pages of 4 KiB, which are faulted in and zeroed in every step.

Here the C library is told to take large blocks from its heap, too, and to give nothing back (`mallopt` with
`M_MMAP_MAX` and `M_TRIM_THRESHOLD`), and PyTorch to ask for huge pages of 2 MiB (`THP_MEM_ALLOC_ENABLE`). After the
first steps the same pages are used again and again.)",
      .faster = R"(Neither the faults nor the zeroing is left. The zeroes were wasted: the tensor's own first write
replaces them.)",
      .costs = R"(The process keeps the most memory that it ever had until it ends. A heap with gaps in it can need
more than single blocks do.)",
      .no_help =
          R"(On a GPU PyTorch's caching allocator keeps memory in any case. Small tensors gain nothing: the C library
keeps small blocks by itself. Where the machine is short of memory, others need what this process keeps.)",
      .pytorch = R"(export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000 THP_MEM_ALLOC_ENABLE=1
python train.py    # PyTorch's tuning guide gives jemalloc or TCMalloc (LD_PRELOAD) for the same purpose)",
      .proven = R"(A block of 1 GiB that is allocated and freed makes at most 8 page faults, and the median timed step
at most as many as 1 % of the process's pages. Without the technique one of the two is exceeded.)"};
}

}  // namespace

}  // namespace ablations
