// Master weights: seen to be on and off, one layer that does otherwise is found, and what they hold in memory.
#include "ablations/techniques/cuda/built.h"
#include "harness/observe/operation_log.h"
#include "model/gradients.h"
#include "tests/ablations/techniques/proven.h"
#include "tests/harness/machines.h"

#include <gtest/gtest.h>

#include <string_view>

namespace weights_test {

using namespace proven;
using at::Tensor;

Recipe fused_recipe(Autocast autocast = Autocast::off, Products products = Products::aten) {
  return {.autocast = autocast,
          .cross_entropy = CrossEntropy::fused,
          .products = products,
          .norm = Norm::fused,
          .mlp = Mlp::fused,
          .optimizer = Optimizer::fused};
}

Recipe master(Recipe recipe) {
  recipe.weights = Weights::master;
  return recipe;
}

TEST(WeightsTechnique, IsProvenByGradientsAndTypes) {
  const Recipe low = fused_recipe(Autocast::bf16), high = fused_recipe();
  expect_told_apart("weights", {low, master(low)});
  expect_told_apart("weights", {high, master(high)});
  // Float32 weights under autocast are no split ones, and the other way round.
  EXPECT_FALSE(passes("weights", master(low), facts(master(high))));
  EXPECT_FALSE(passes("weights", master(high), facts(master(low))));
}

TEST(WeightsTechnique, DisturbsNoOtherProof) {
  for (const Products products : {Products::aten, Products::packed}) {
    Recipe recipe = master(fused_recipe(Autocast::off, products));
    recipe.vocabulary_rows = 50304;
    const RunFacts run = facts(recipe);
    expect_all_proven(recipe, run);
    Recipe separate = recipe;
    separate.weights = Weights::separate;
    EXPECT_FALSE(passes("optimizer", separate, run));
  }
}

TEST(WeightsTechnique, OneGradientThatIsNotWrittenInPlaceIsSeen) {
  const Recipe recipe = master(fused_recipe());
  const Proof found = proof("weights", recipe, facts(recipe, [](Trainer& trainer) {
                              trainer.ops().linear = by_turns(reference_ops().linear, trainer.ops().linear);
                            }));
  EXPECT_FALSE(found.passed);
  EXPECT_NE(found.observed.find("of 28 parameters 26 have"), std::string::npos) << found.observed;
  const auto one_of_autograds = [](Trainer& trainer) {
    const Tensor more = at::zeros({32}).requires_grad_(true);
    trainer.ops().linear = [own = trainer.ops().linear, more](const Tensor& x, const Tensor& weight,
                                                              const Tensor& bias) {
      return own(x, weight, bias) + more;
    };
  };
  EXPECT_FALSE(passes("weights", recipe, facts(recipe, one_of_autograds)));
}

// A trace of a CPU takes for idle time what observers do not see.
TEST(WeightsTechnique, ObserversSeeTheLoopsOutsideForward) {
  Recipe recipe = master(fused_recipe());
  recipe.attention = Attention::packed;
  const TokenStream stream = numbers::text();
  Trainer trainer(preset("tiny"), recipe, {.B = 2, .T = 32, .max_steps = 1}, stream, step_parts());
  harness::OperationLog log;
  trainer.on_phase = [&](std::string_view phase) { log.begin_phase(phase); };
  trainer.step();
  const harness::OperationLog::Counts backward = log.operations("backward");
  for (const char* loop : {"model::embed_backward", "model::linear_backward", "model::packed_attention_backward",
                           "model::fused_add_norm_backward", "model::fused_mlp_backward"}) {
    EXPECT_TRUE(backward.contains(loop)) << loop;
  }
  EXPECT_TRUE(log.operations("clip").contains("model::gradient_norm"));
  EXPECT_TRUE(log.operations("update").contains("model::adamw"));
}

TEST(WeightsTechnique, HoldsNoCopiesOfWeights) {
  const Observed copied = seen(fused_recipe(Autocast::bf16)), split = seen(master(fused_recipe(Autocast::bf16)));
  EXPECT_GT(copied.memory.weight_copies, 0);
  EXPECT_EQ(split.memory.weight_copies, 0);
  EXPECT_EQ(split.memory.weights, copied.memory.weights);
  EXPECT_EQ(split.memory.gradients, copied.memory.gradients);
  EXPECT_EQ(split.memory.optimizer, copied.memory.optimizer);
}

TEST(WeightsTechnique, SaysWhereItCannotBe) {
  const harness::Machine machine{};
  EXPECT_EQ(recipe_obstacle(master(fused_recipe()), machine), "");
  EXPECT_EQ(recipe_obstacle(master({}), machine), "master weights need norm, mlp, cross_entropy and optimizer fused");
  Recipe three = master(fused_recipe());
  three.qkv_products = QkvProducts::three;
  EXPECT_EQ(recipe_obstacle(three, machine), "master weights need query, key and value as one product");
  Recipe cuda = master(fused_recipe());
  cuda.device = Device::cuda;
  EXPECT_EQ(master_weights_obstacle(cuda), "");
  EXPECT_EQ(recipe_obstacle(cuda, machines::hopper).empty(), has_cuda_kernels);
  Recipe without = fused_recipe();
  without.norm = Norm::aten;
  EXPECT_EQ(find_optimization("master_weights")->obstacle(without, machine), "needs \"fused_norm\"");
}

}  // namespace weights_test
