// The fused operations and the packed products together, and where they cannot be.
#include "ablations/techniques/fused.h"

#include "ablations/techniques/cuda/built.h"
#include "ablations/techniques/products/products.h"
#include "tests/ablations/techniques/proven.h"
#include "tests/harness/machines.h"

#include <gtest/gtest.h>

namespace techniques_fused_test {

using namespace proven;

TEST(FusedTechniques, DisturbNoOtherProof) {
  const Recipe all{.qkv_products = QkvProducts::three,
                   .cross_entropy = CrossEntropy::fused,
                   .products = Products::packed,
                   .norm = Norm::fused,
                   .mlp = Mlp::fused,
                   .vocabulary_rows = 50304};
  for (const Recipe& recipe :
       {Recipe{.norm = Norm::fused}, {.mlp = Mlp::fused}, {.cross_entropy = CrossEntropy::fused}, all}) {
    expect_all_proven(recipe, facts(recipe));
  }
}

TEST(FusedTechniques, PackedProductsOfBfloat16AreLowPrecisionProducts) {
  if (!has_packed_bf16()) GTEST_SKIP() << "this machine has no packed products of bfloat16";
  const Recipe packed{.autocast = Autocast::bf16, .attention = Attention::packed, .products = Products::packed};
  RunFacts run = facts(packed);
  EXPECT_TRUE(passes("products", packed, run));
  EXPECT_TRUE(passes("autocast", packed, run)) << proof("autocast", packed, run).observed;
  // The forward and both backward products of every linear layer and of the head, in two micro-steps.
  EXPECT_EQ(run.observations.matrix_products->at("packed bf16"), 3 * (4 * 2 + 1) * 2);
  run.observations.matrix_products = Counts{};
  EXPECT_FALSE(passes("autocast", packed, run));
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
