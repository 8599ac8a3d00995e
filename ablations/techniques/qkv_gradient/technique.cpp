// How the gradients of query, key and value become the gradient of their product.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/fused.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

std::string qkv_gradient_obstacle(const Recipe& recipe, const harness::Machine& machine) {
  if (recipe.qkv_gradient == QkvGradient::separate) return "";
  if (recipe.device == Device::cpu) return "the joined QKV gradient is a kernel for a GPU";
  if (recipe.qkv_products == QkvProducts::three)
    return "the joined QKV gradient needs query, key and value as one product";
  if (recipe.attention == Attention::packed)
    return "packed attention joins the gradients of query, key and value itself";
  return fused_obstacle(recipe, machine);
}

Proof prove_qkv_gradient(const Recipe& recipe, const RunFacts& facts) {
  const int64_t found = nodes_of(facts.observations.backward_nodes, "JoinedThirds");
  const int64_t expected = recipe.qkv_gradient == QkvGradient::joined ? facts.attentions : 0;
  return {"qkv_gradient", found == expected, fmt::format("{} JoinedThirds", expected),
          fmt::format("{} JoinedThirds", found)};
}

}  // namespace

Technique qkv_gradient() {
  return {
      .field = "qkv_gradient",
      .optimizations = {{.name = "joined_qkv_gradient",
                         .title = "joined QKV gradient",
                         .summary = "Attention gives three gradients, of query, key and value. One pass puts them side "
                                    "by side for their matrix product, and sums them for the bias on the way.",
                         .edit = [](Recipe& r, const harness::Machine&) { r.qkv_gradient = QkvGradient::joined; },
                         .replaces = {"qkv"},
                         .by = "joined"}},
      .obstacle = qkv_gradient_obstacle,
      .prove = prove_qkv_gradient,
  };
}

}  // namespace ablations
