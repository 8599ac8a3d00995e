// fp8 on a CPU, where it is emulated: proven by its products, refused where it cannot be, and a training's loss.
#include "tests/ablations/techniques/proven.h"
#include "tests/harness/machines.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace fp8_test {

using namespace proven;

Recipe recipe_with(Fp8 fp8) {
  return {.autocast = Autocast::bf16,
          .cross_entropy = CrossEntropy::fused,
          .residual = Residual::autocast,
          .norm = Norm::fused,
          .mlp = Mlp::fused,
          .vocabulary_rows = 50304,
          .optimizer = Optimizer::fused,
          .weights = Weights::master,
          .fp8 = fp8};
}

TEST(Fp8Technique, IsProvenByItsProducts) {
  expect_told_apart("fp8", {recipe_with(Fp8::off), recipe_with(Fp8::head), recipe_with(Fp8::all)});
}

TEST(Fp8Technique, OneProductThatFellBackFailsTheProof) {
  RunFacts run{.observations = {.fp8_products = Counts{{"head forward e4m3", 2}, {"head dgrad e5m2", 2}}}};
  EXPECT_TRUE(passes("fp8", recipe_with(Fp8::head), run));
  run.observations.fp8_products = Counts{{"head forward e4m3", 2}, {"head dgrad e5m2", 1}, {"head dgrad bf16", 1}};
  EXPECT_FALSE(passes("fp8", recipe_with(Fp8::head), run));
}

TEST(Fp8Technique, SaysWhatItNeeds) {
  const auto obstacle = [](auto edit, int capability = 90) {
    Recipe recipe = recipe_with(Fp8::all);
    recipe.device = Device::cuda;
    recipe.qkv_gradient = QkvGradient::joined;
    edit(recipe);
    harness::Machine machine = machines::hopper;
    machine.gpu->compute_capability = capability;
    return recipe_obstacle(recipe, machine);
  };
  const auto nothing = [](Recipe&) {};
  const auto head = [](Recipe& r) { r.fp8 = Fp8::head; };
  EXPECT_EQ(obstacle(head, 80), "fp8 needs compute capability 8.9, H200 has 8.0");
  EXPECT_EQ(obstacle(head, 89) + obstacle(head, 100), "");
  for (const int capability : {80, 89, 100}) {  // scales of rows
    EXPECT_EQ(obstacle(nothing, capability),
              fmt::format("fp8 all needs compute capability 9.0, H200 has {:.1f}", capability / 10.0));
  }
  EXPECT_EQ(obstacle([](Recipe& r) { r.vocabulary_rows = 50257; }),
            "fp8 needs vocabulary_rows that are a multiple of 16, not 50257");
  EXPECT_EQ(obstacle([](Recipe& r) { r.qkv_gradient = QkvGradient::separate; }), "fp8 all needs qkv_gradient joined");
  EXPECT_EQ(obstacle([](Recipe& r) { r.weights = Weights::separate; }), "fp8 needs autocast bf16 and weights master");
}

// The mean of the last steps of 300.
double last_loss(Fp8 fp8) {
  TokenStream text;
  std::mt19937 random(5);
  for (uint16_t token = 0; text.tokens.size() < 40000; token = static_cast<uint16_t>((5 * token + random() % 4) % 192))
    text.tokens.push_back(token);
  Recipe recipe = recipe_with(fp8);
  recipe.vocabulary_rows = 192;
  const Config config{.name = "small", .n_layer = 2, .n_head = 4, .n_embd = 64, .n_positions = 32, .vocabulary = 192};
  Trainer trainer(config, recipe,
                  {.B = 8, .T = 32, .max_steps = 300, .schedule = {.peak = 3e-3, .floor = 3e-4, .decay_steps = 300}},
                  text, step_parts());
  for (int i = 0; i < 300; ++i) trainer.step();
  const std::vector<double> losses = trainer.losses();
  return std::accumulate(losses.end() - 20, losses.end(), 0.0) / 20;
}

TEST(Fp8Technique, ATrainingEndsNearBf16s) {
  const double bf16 = last_loss(Fp8::off), fp8 = last_loss(Fp8::all);
  EXPECT_LT(bf16, 2.5) << "it has not learned";  // ln 192 is 5.3, ln 4 is 1.4
  EXPECT_NEAR(fp8, bf16, 0.02);
  RecordProperty("fp8_minus_bf16", std::to_string(fp8 - bf16));
}

}  // namespace fp8_test
