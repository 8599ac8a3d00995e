#include "model/cpu/kernels.h"

#include <ATen/native/DispatchStub.h>

namespace model::cpu {

const Kernels& kernels() {
  switch (at::native::get_cpu_capability()) {
#if defined(__x86_64__)
    case at::native::CPUCapability::AVX512:
      return avx512_kernels;
    case at::native::CPUCapability::AVX2:
      return avx2_kernels;
#endif
    default:
      return plain_kernels;
  }
}

}  // namespace model::cpu
