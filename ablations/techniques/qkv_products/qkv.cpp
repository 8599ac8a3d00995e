#include "ablations/techniques/operations.h"

#include <array>
#include <vector>

namespace model {

using at::Tensor;

namespace {

// Each with its third of the packed weight. In the backward pass the gradients of the thirds are put together.
decltype(Ops::qkv) qkv_in_three_products(const decltype(Ops::linear)& linear) {
  return [linear](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const std::vector<Tensor> weights = weight.chunk(3), biases = bias.chunk(3);
    const auto product = [&](size_t i) { return linear(x, weights[i], biases[i]); };
    return std::array{product(0), product(1), product(2)};
  };
}

}  // namespace

void install_qkv_products(const Recipe& recipe, Gradients* /*gradients*/, Ops& ops) {
  const bool three = recipe.qkv_products == QkvProducts::three;
  ops.qkv = three ? qkv_in_three_products(ops.linear) : qkv_in_one_product(ops.linear);
}

}  // namespace model
