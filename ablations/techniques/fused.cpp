#include "ablations/techniques/fused.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

bool has_cuda_kernels() { return LADDER_CUDA_KERNELS != 0; }

std::string fused_obstacle(const Recipe& recipe, const harness::Machine& machine) {
  if (recipe.device == Device::cuda) {
    constexpr int least = 80;  // what cmake/CudaKernels.cmake compiles for
    if (!has_cuda_kernels()) {
      return "this program was built without its CUDA kernels; configure with -DLADDER_CUDA_KERNELS=ON";
    }
    if (machine.gpu && machine.gpu->compute_capability < least) {
      return fmt::format("the CUDA kernels need compute capability 8.0, {} has {:.1f}", machine.gpu->name,
                         machine.gpu->compute_capability / 10.0);
    }
  }
  if (recipe.autocast == Autocast::fp16) return "the fused operations know float32 and bfloat16, not float16";
  return "";
}

int64_t linear_layers(const Recipe& recipe) {
  return (recipe.qkv_products == QkvProducts::one ? 1 : 3) + 1 + (recipe.mlp == Mlp::aten ? 2 : 0);
}

const char* linear_node(const Recipe& recipe) {
  if (recipe.products == Products::packed) return "PackedLinear";
  if (recipe.weights != Weights::master) return "AddmmBackward0";
  return recipe.device == Device::cuda ? "CudaLinear" : "AtenLinear";
}

int64_t nodes_of(const Counts& nodes, const std::string& type) {
  int64_t found = 0;
  for (const auto& [name, calls] : nodes) {
    if (name.find(type) != std::string::npos) found += calls;
  }
  return found;
}

}  // namespace ablations
