// The joined gradient of query, key and value: where it is refused, and how it is seen.
#include "ablations/techniques/cuda/built.h"
#include "ablations/techniques/techniques.h"
#include "tests/harness/machines.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace qkv_gradient_test {

using namespace ablations;
using namespace model;

constexpr Recipe joined{.device = Device::cuda, .autocast = Autocast::bf16, .qkv_gradient = QkvGradient::joined};

std::string refusal(Recipe recipe) { return recipe_obstacle(recipe, machines::hopper); }

TEST(QkvGradient, IsRefusedWhereItCannotBe) {
  EXPECT_EQ(refusal(joined).empty(), has_cuda_kernels);
  Recipe recipe = joined;
  recipe.device = Device::cpu;
  EXPECT_EQ(refusal(recipe), "the joined QKV gradient is a kernel for a GPU");
  recipe = joined;
  recipe.qkv_products = QkvProducts::three;
  EXPECT_EQ(refusal(recipe), "the joined QKV gradient needs query, key and value as one product");
  recipe = joined;
  recipe.attention = Attention::packed;
  EXPECT_EQ(refusal(recipe), "packed attention joins the gradients of query, key and value itself");
  if (!has_cuda_kernels) return;
  recipe = joined;
  recipe.autocast = Autocast::fp16;
  EXPECT_EQ(refusal(recipe), "the fused operations know float32 and bfloat16, not float16");
}

bool proof(const Recipe& recipe, int64_t nodes) {
  RunFacts facts{.attentions = 4};
  if (nodes > 0) facts.observations.backward_nodes["torch::autograd::CppNode<model::JoinedThirds>"] = nodes;
  const auto proofs = prove(recipe, facts);
  return std::ranges::find(proofs, "qkv_gradient", &Proof::field)->passed;
}

TEST(QkvGradient, IsProvenByItsNodes) {
  Recipe separate = joined;
  separate.qkv_gradient = QkvGradient::separate;
  EXPECT_TRUE(proof(joined, 4));
  EXPECT_FALSE(proof(joined, 3));  // one layer does otherwise
  EXPECT_FALSE(proof(joined, 0));
  EXPECT_TRUE(proof(separate, 0));
  EXPECT_FALSE(proof(separate, 4));
  EXPECT_TRUE(proof({}, 0));  // on a CPU
}

}  // namespace qkv_gradient_test
