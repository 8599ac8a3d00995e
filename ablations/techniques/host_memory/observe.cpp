#include "ablations/techniques/observers.h"
#include "harness/machine/control_groups.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace ablations {

namespace {

constexpr int64_t refault_bytes = int64_t{64} << 20;
// The block whose first refault_bytes are written. A heap that gives memory back may still have a smaller one free.
constexpr int64_t refault_block_bytes = int64_t{1} << 30;

int64_t refaults() {
  // The least of a few rounds, because the heap may have to grow in the first. Each block is a little smaller than the
  // one before. So it fits into the same place even if malloc keeps small pieces at its ends.
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t round = 0; round < 5; ++round) {
    const int64_t before = harness::minor_faults();
    const at::Tensor block = at::empty({refault_block_bytes - round * 65536}, at::kByte);
    block.narrow(0, 0, refault_bytes).fill_(round);
    least = std::min(least, harness::minor_faults() - before);
  }
  return least;
}

}  // namespace

void observe_host_memory(model::Trainer&, Observations& seen) {
  seen.refault.bytes = refault_bytes;
  seen.refault.faults = refaults();
}

}  // namespace ablations
