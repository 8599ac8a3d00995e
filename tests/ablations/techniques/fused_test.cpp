// The fused operations and the packed products: each is seen to be what it is, and its plain counterpart, too. One
// layer of two that does the other thing is neither.
#include "ablations/techniques/fused.h"

#include "ablations/gpt2/observe.h"
#include "ablations/techniques/cuda/built.h"
#include "ablations/techniques/operations.h"
#include "ablations/techniques/products/products.h"
#include "ablations/techniques/techniques.h"
#include "model/trainer.h"
#include "tests/ablations/techniques/numbers.h"
#include "tests/harness/machines.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace techniques_fused_test {

using namespace ablations;
using namespace model;
using at::Tensor;

constexpr Recipe plain;

Observed seen(
    const Recipe& recipe, const std::function<void(Ops&)>& sabotage = [](Ops&) {}) {
  const TokenStream stream = numbers::text();
  Trainer trainer(preset("tiny"), recipe, {.B = 2, .T = 32, .accumulation = 2, .max_steps = 1 + observed_steps}, stream,
                  step_parts());
  sabotage(trainer.ops());
  trainer.step();
  return observe(trainer);
}

Proof proof(const std::string& field, const Recipe& claimed, const Observed& observed) {
  const auto proofs = prove(claimed, {.observations = observed.observations, .attentions = 2 * 2});
  return *std::ranges::find(proofs, field, &Proof::field);
}

// `other` differs from the plain recipe in `field`.
void expect_told_apart(const std::string& field, const Recipe& other) {
  const Observed of_plain = seen(plain), of_other = seen(other);
  EXPECT_TRUE(proof(field, plain, of_plain).passed) << proof(field, plain, of_plain).observed;
  EXPECT_TRUE(proof(field, other, of_other).passed) << proof(field, other, of_other).observed;
  EXPECT_FALSE(proof(field, plain, of_other).passed);
  EXPECT_FALSE(proof(field, other, of_plain).passed);
  // No proof of another field is disturbed.
  for (const Proof& one : prove(other, {.observations = of_other.observations, .attentions = 2 * 2})) {
    EXPECT_TRUE(one.passed || one.field == "host_memory") << one.field << ": " << one.observed;
  }
}

TEST(FusedTechniques, AreProvenByTheirNodes) {
  expect_told_apart("norm", {.norm = Norm::fused});
  expect_told_apart("mlp", {.mlp = Mlp::fused});
  expect_told_apart("cross_entropy", {.cross_entropy = CrossEntropy::fused});
  expect_told_apart("products", {.products = Products::packed});
}

TEST(FusedTechniques, GoTogether) {
  Recipe all{
      .cross_entropy = CrossEntropy::fused, .products = Products::packed, .norm = Norm::fused, .mlp = Mlp::fused};
  all.qkv_products = QkvProducts::three;
  all.vocabulary_rows = 50304;
  const Observed observed = seen(all);
  for (const Proof& one : prove(all, {.observations = observed.observations, .attentions = 2 * 2})) {
    EXPECT_TRUE(one.passed || one.field == "host_memory") << one.field << ": " << one.observed;
  }
}

TEST(FusedTechniques, PackedProductsOfBfloat16AreLowPrecisionProducts) {
  if (!has_packed_bf16()) GTEST_SKIP() << "this machine has no packed products of bfloat16";
  const Recipe packed{.autocast = Autocast::bf16, .attention = Attention::packed, .products = Products::packed};
  Observed observed = seen(packed);
  EXPECT_TRUE(proof("products", packed, observed).passed);
  EXPECT_TRUE(proof("autocast", packed, observed).passed) << proof("autocast", packed, observed).observed;
  // The forward and both backward products of every linear layer and of the head, in two micro-steps.
  EXPECT_EQ(observed.observations.matrix_products->at("packed bf16"), 3 * (4 * 2 + 1) * 2);
  observed.observations.matrix_products = Counts{};
  EXPECT_FALSE(proof("autocast", packed, observed).passed);
}

TEST(FusedTechniques, OneLayerThatFallsBackIsSeen) {
  const Recipe norm{.norm = Norm::fused}, mlp{.mlp = Mlp::fused}, packed{.products = Products::packed};
  const auto every_second = [](auto one, auto other) {
    return [one, other, n = 0](auto&&... arguments) mutable {
      return ++n % 2 == 0 ? one(arguments...) : other(arguments...);
    };
  };
  EXPECT_FALSE(proof("norm", norm,
                     seen(norm, [&](Ops& ops) { ops.add_norm = every_second(ops.add_norm, reference_ops().add_norm); }))
                   .passed);
  EXPECT_FALSE(
      proof("mlp", mlp, seen(mlp, [&](Ops& ops) { ops.mlp = every_second(ops.mlp, reference_ops().mlp); })).passed);
  EXPECT_FALSE(proof("products", packed,
                     seen(packed, [&](Ops& ops) { ops.linear = every_second(ops.linear, reference_ops().linear); }))
                   .passed);
}

TEST(FusedTechniques, SayWhereTheyCannotBe) {
  const harness::Machine machine{};
  const Recipe packed_bf16{.autocast = Autocast::bf16, .products = Products::packed};
  EXPECT_EQ(recipe_obstacle(packed_bf16, machine), "packed products under bf16 autocast need a CPU with avx512_bf16");
  harness::Machine zen4;
  zen4.cpu.features = {"avx512_bf16"};
  EXPECT_EQ(recipe_obstacle(packed_bf16, zen4).empty(), has_packed_bf16());
  EXPECT_EQ(recipe_obstacle({.autocast = Autocast::fp16, .products = Products::packed}, machine),
            "packed products know float32 and bfloat16, not float16");
  EXPECT_EQ(recipe_obstacle({.autocast = Autocast::fp16, .mlp = Mlp::fused}, machine),
            "the fused operations know float32 and bfloat16, not float16");
  EXPECT_EQ(recipe_obstacle({.cross_entropy = CrossEntropy::fused, .norm = Norm::fused, .mlp = Mlp::fused}, machine),
            "");

  const Recipe on_gpu{.device = Device::cuda, .autocast = Autocast::bf16, .norm = Norm::fused};
  const std::string not_built =
      "this program was built without its CUDA kernels; configure with -DLADDER_CUDA_KERNELS=ON";
  EXPECT_EQ(fused_obstacle(on_gpu, machines::hopper), has_cuda_kernels ? "" : not_built);
  harness::Machine turing = machines::hopper;
  turing.gpu->name = "T4";
  turing.gpu->compute_capability = 75;
  EXPECT_EQ(fused_obstacle(on_gpu, turing),
            has_cuda_kernels ? "the CUDA kernels need compute capability 8.0, T4 has 7.5" : not_built);
}

}  // namespace techniques_fused_test
