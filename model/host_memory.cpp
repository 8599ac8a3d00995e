#include "model/host_memory.h"

#include <malloc.h>

#include <cstdlib>

namespace model {

void apply_host_memory(HostMemory policy) {
  if (policy == HostMemory::release) return;
  setenv("THP_MEM_ALLOC_ENABLE", "1", /*overwrite=*/1);  // c10 reads it at its first allocation
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);  // never
}

}  // namespace model
