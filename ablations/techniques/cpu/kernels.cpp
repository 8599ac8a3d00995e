#include "ablations/techniques/cpu/kernels.h"

#include <ATen/Version.h>

#include <string>

namespace model::cpu {

const Kernels& kernels() {
  static const Kernels& chosen = [&]() -> const Kernels& {
    const std::string capability = at::get_cpu_capability();
    if (capability == "AVX512") return avx512_kernels;
    return capability == "AVX2" ? avx2_kernels : plain_kernels;
  }();
  return chosen;
}

bool has_product_bf16() { return &kernels() == &avx512_kernels && __builtin_cpu_supports("avx512bf16") != 0; }

}  // namespace model::cpu
