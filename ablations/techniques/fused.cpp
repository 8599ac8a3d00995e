#include "ablations/techniques/fused.h"

namespace ablations {

using namespace model;

std::string fused_obstacle(const Recipe& recipe) {
  if (recipe.device == Device::cuda) return "the fused operations have no CUDA kernels yet";
  if (recipe.autocast == Autocast::fp16) return "the fused operations know float32 and bfloat16, not float16";
  return "";
}

int64_t linear_layers(const Recipe& recipe) {
  return (recipe.qkv_products == QkvProducts::one ? 1 : 3) + 1 + (recipe.mlp == Mlp::aten ? 2 : 0);
}

int64_t nodes_of(const Counts& nodes, const std::string& type) {
  int64_t found = 0;
  for (const auto& [name, calls] : nodes) {
    if (name.find(type) != std::string::npos) found += calls;
  }
  return found;
}

}  // namespace ablations
