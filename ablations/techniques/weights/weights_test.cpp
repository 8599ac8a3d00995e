// Master weights: seen to be on and off, one layer that does otherwise is found, and what they hold in memory.
#include "ablations/gpt2/observe.h"
#include "ablations/techniques/cuda/built.h"
#include "ablations/techniques/operations.h"
#include "ablations/techniques/techniques.h"
#include "harness/observe/operation_log.h"
#include "model/gradients.h"
#include "model/trainer.h"
#include "tests/ablations/techniques/numbers.h"
#include "tests/harness/machines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string_view>

namespace weights_test {

using namespace ablations;
using namespace model;
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

Observed seen(
    const Recipe& recipe, const std::function<void(Trainer&)>& sabotage = [](Trainer&) {}) {
  const TokenStream stream = numbers::text();
  Trainer trainer(preset("tiny"), recipe, {.B = 2, .T = 32, .accumulation = 2, .max_steps = 1 + observed_steps}, stream,
                  step_parts());
  sabotage(trainer);
  trainer.step();
  return observe(trainer);
}

std::vector<Proof> proofs(const Recipe& claimed, const Observed& observed) {
  return prove(claimed, {.observations = observed.observations, .attentions = 2 * 2});
}

Proof proof(const Recipe& claimed, const Observed& observed) {
  const std::vector<Proof> all = proofs(claimed, observed);
  return *std::ranges::find(all, "weights", &Proof::field);
}

TEST(WeightsTechnique, IsProvenByGradientsAndTypes) {
  for (const Autocast autocast : {Autocast::off, Autocast::bf16}) {
    const Recipe off = fused_recipe(autocast), on = master(off);
    const Observed of_off = seen(off), of_on = seen(on);
    EXPECT_TRUE(proof(off, of_off).passed) << proof(off, of_off).observed;
    EXPECT_TRUE(proof(on, of_on).passed) << proof(on, of_on).observed;
    EXPECT_FALSE(proof(off, of_on).passed);
    EXPECT_FALSE(proof(on, of_off).passed);
  }
  // Float32 weights under autocast are no split ones, and the other way round.
  EXPECT_FALSE(proof(master(fused_recipe(Autocast::bf16)), seen(master(fused_recipe()))).passed);
  EXPECT_FALSE(proof(master(fused_recipe()), seen(master(fused_recipe(Autocast::bf16)))).passed);
}

TEST(WeightsTechnique, DisturbsNoOtherProof) {
  for (const Products products : {Products::aten, Products::packed}) {
    Recipe recipe = master(fused_recipe(Autocast::off, products));
    recipe.vocabulary_rows = 50304;
    const Observed observed = seen(recipe);
    for (const Proof& one : proofs(recipe, observed)) {
      EXPECT_TRUE(one.passed || one.field == "host_memory") << one.field << ": " << one.observed;
    }
    Recipe separate = recipe;
    separate.weights = Weights::separate;
    const std::vector<Proof> of_separate = proofs(separate, observed);
    EXPECT_FALSE(std::ranges::find(of_separate, "optimizer", &Proof::field)->passed);
  }
}

TEST(WeightsTechnique, OneGradientThatIsNotWrittenIsSeen) {
  const Recipe recipe = master(fused_recipe());
  const auto falls_back = [](Trainer& trainer) {
    trainer.ops().linear = [own = trainer.ops().linear, n = 0](const Tensor& x, const Tensor& weight,
                                                               const Tensor& bias) mutable {
      return ++n % 2 == 0 ? own(x, weight, bias) : reference_ops().linear(x, weight, bias);
    };
  };
  const Proof found = proof(recipe, seen(recipe, falls_back));
  EXPECT_FALSE(found.passed);
  EXPECT_NE(found.observed.find("of 28 parameters 26 have"), std::string::npos) << found.observed;
}

TEST(WeightsTechnique, AGradientOfAutogradsOwnIsSeen) {
  const Recipe recipe = master(fused_recipe());
  const auto one_of_autograds = [](Trainer& trainer) {
    const Tensor more = at::zeros({32}).requires_grad_(true);
    trainer.ops().linear = [own = trainer.ops().linear, more](const Tensor& x, const Tensor& weight,
                                                              const Tensor& bias) {
      return own(x, weight, bias) + more;
    };
  };
  EXPECT_FALSE(proof(recipe, seen(recipe, one_of_autograds)).passed);
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
