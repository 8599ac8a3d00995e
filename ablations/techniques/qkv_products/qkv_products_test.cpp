// Query, key and value as one product and as three: the same numbers and gradients, each is seen to be what it is, and
// the copies of the input that three products make are counted.
#include "ablations/techniques/step_memory.h"
#include "tests/ablations/techniques/proven.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace qkv_products_test {

using namespace proven;
using at::Tensor;

constexpr Recipe one{.qkv_products = QkvProducts::one}, three{.qkv_products = QkvProducts::three};

TEST(QkvProducts, AreTheSameNumbersAndGradients) {
  at::manual_seed(3);
  const auto random = [](at::IntArrayRef shape) { return at::randn(shape, at::kDouble).requires_grad_(true); };
  const Tensor x = random({2, 5, 8}), weight = random({24, 8}), bias = random({24});
  const auto pass = [&](const Recipe& recipe) {
    for (const Tensor& leaf : {x, weight, bias}) leaf.mutable_grad() = Tensor();
    const auto [query, key, value] = ops_for(recipe).qkv(x, weight, bias);
    (query.sin() + 2 * key.cos() + 3 * value.square()).sum().backward();
    return std::vector{query.detach(), key.detach(), value.detach(), x.grad(), weight.grad(), bias.grad()};
  };
  const auto packed = pass(one), separate = pass(three);
  for (size_t i = 0; i < packed.size(); ++i) EXPECT_TRUE(at::allclose(packed[i], separate[i], 1e-12, 1e-12)) << i;
}

TEST(QkvProducts, AreProvenByTheirNumber) {
  expect_told_apart("qkv_products", {one, three});
  // One layer of two does the other thing.
  const auto both = [](Trainer& trainer) { trainer.ops().qkv = by_turns(ops_for(one).qkv, ops_for(three).qkv); };
  const RunFacts of_both = facts(one, both);
  EXPECT_FALSE(passes("qkv_products", one, of_both));
  EXPECT_FALSE(passes("qkv_products", three, of_both));
}

// Under autocast; a stream of 16 bits they share.
TEST(QkvProducts, CopiesOfTheInputAreCounted) {
  for (const Residual residual : {Residual::float32, Residual::autocast}) {
    Recipe packed{.autocast = Autocast::bf16, .residual = residual}, separate = packed;
    separate.qkv_products = QkvProducts::three;
    const auto counted = [](const Recipe& recipe) {
      const StepMemory memory = step_memory(preset("tiny"), recipe, 2, 32);
      return memory.left_by_forward + memory.at(Moment::loss).weight_copies;
    };
    const auto had = [](const Recipe& recipe) {
      const MemoryParts memory = seen(recipe).memory;
      return static_cast<double>(memory.activations + memory.weight_copies);
    };
    const double expected =
        residual == Residual::float32 ? 2 * 2 * (2 * 32 * 32) * 2 : 0;  // layers x copies x BTC x bytes
    EXPECT_EQ(counted(separate) - counted(packed), expected);
    EXPECT_NEAR(had(separate) - had(packed), expected, 1024);
  }
}

}  // namespace qkv_products_test
