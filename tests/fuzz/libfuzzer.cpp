// libFuzzer's side of one target, FUZZ_TARGET (https://llvm.org/docs/LibFuzzer.html). Whatever a target throws ends the
// program, which is how libFuzzer learns of a finding.
#include "fuzz/targets.h"

#include <ATen/Parallel.h>

#include <cstdint>

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  at::set_num_threads(1);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::Target target = fuzz::target_of(FUZZ_TARGET);
  (void)target({reinterpret_cast<const char*>(data), size});
  return 0;
}
