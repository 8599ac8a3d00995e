// The joined gradient of query, key and value against the separate ones, by the kernel's own source on a CPU.
#include "ablations/techniques/products/linear.h"
#include "ablations/techniques/products/strips.h"
#include "ablations/techniques/qkv_gradient/qkv_gradient.h"
#include "model/gradients.h"
#include "model/ops.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace qkv_gradient_step_test {

using at::Tensor;
using namespace model;

Tensor random(at::IntArrayRef shape, at::ScalarType type) { return at::randn(shape).to(type).set_requires_grad(true); }

const auto in_one_product =
    qkv_in_one_product([](const Tensor& of, const Tensor& w, const Tensor& b) { return at::linear(of, w, b); });

void backward_of(const std::array<Tensor, 3>& thirds) {
  const auto& [query, key, value] = thirds;
  (query.sin() + 2 * key.cos() + 3 * value.square()).sum().backward();
}

bool close(const Tensor& a, const Tensor& b, double tolerance) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).norm().item<double>() <=
         tolerance * b.to(at::kDouble).norm().item<double>();
}

TEST(JoinedQkvGradient, IsTheSeparateOnes) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    at::manual_seed(3);
    const double tolerance = type == at::kFloat ? 1e-6 : 4e-3;
    const Tensor x = random({2, 5, 8}, type), weight = random({24, 8}, type), bias = random({24}, type);
    backward_of(in_one_product(x, weight, bias));
    std::vector<Tensor> expected;
    for (const Tensor& leaf : {x, weight, bias}) {
      expected.push_back(leaf.grad());
      leaf.mutable_grad() = Tensor();
    }
    backward_of(joined_thirds(at::linear(x, weight, bias.detach()), bias, /*fp8=*/false, nullptr));
    EXPECT_TRUE(at::equal(x.grad(), expected[0]));
    EXPECT_TRUE(at::equal(weight.grad(), expected[1]));
    EXPECT_TRUE(close(bias.grad(), expected[2], tolerance));
  }
}

// The product beside it makes no gradient of the bias: it would be added to this one.
TEST(JoinedQkvGradient, GoesIntoItsBufferOnce) {
  at::manual_seed(3);
  const Tensor x = random({2, 5, 8}, at::kFloat), weight = random({24, 8}, at::kFloat), bias = random({24}, at::kFloat);
  backward_of(in_one_product(x, weight, bias));
  const Tensor of_weight = weight.grad(), of_bias = bias.grad();
  Gradients gradients(std::vector<Parameter>{{"w", weight}, {"b", bias}});
  const auto linear = own_linear(aten_products, &gradients);
  gradients.begin_step();
  for (const int times : {1, 2}) {
    backward_of(joined_thirds(linear(x, weight, bias.detach()), bias, /*fp8=*/false, &gradients));
    add_up_left(gradients);
    EXPECT_TRUE(close(bias.grad(), times * of_bias, 1e-6)) << times;
    EXPECT_TRUE(close(weight.grad(), times * of_weight, 1e-6)) << times;
  }
}

}  // namespace qkv_gradient_step_test
