// A step under every recipe of the CPU: it learns, it repeats to the bit, accumulation adds up, sizes are checked.
#include "model/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace {

using namespace model;

TokenStream text() {
  TokenStream stream;
  for (int i = 0; i < 5000; ++i) stream.tokens.push_back(static_cast<uint16_t>(i * i % 97 * 500));
  return stream;
}

std::vector<double> losses(const Recipe& recipe, int64_t steps, TrainerOptions options = {.B = 2, .T = 32}) {
  static const TokenStream stream = text();
  options.max_steps = steps;
  Trainer trainer(preset("tiny"), recipe, options, stream);
  for (int64_t i = 0; i < steps; ++i) trainer.step();
  return trainer.losses();
}

TEST(Trainer, LearnsATextThatRepeats) {
  const auto curve =
      losses({.optimizer = Optimizer::fused}, 60, {.B = 4, .T = 32, .schedule = {.peak = 1e-2, .floor = 1e-3}});
  EXPECT_NEAR(curve.front(), std::log(50257.0), 0.1);
  EXPECT_LT(curve.back(), 5.0);
}

TEST(Trainer, RepeatsToTheBit) {
  for (const Recipe& recipe : {Recipe{}, Recipe{.autocast = Autocast::bf16,
                                         .attention = Attention::flash,
                                         .vocabulary_rows = 50304,
                                         .optimizer = Optimizer::fused}}) {
    const std::vector<double> once = losses(recipe, 6);
    EXPECT_EQ(once, losses(recipe, 6));
    Recipe deterministic = recipe;  // on a CPU no other arithmetic
    deterministic.deterministic = true;
    EXPECT_EQ(losses(deterministic, 6), once);
  }
  EXPECT_NE(losses({}, 2, {.B = 2, .T = 32, .seed = 1}), losses({}, 2, {.B = 2, .T = 32, .seed = 2}));
}

TEST(Trainer, RecipesLearnTheSame) {
  const auto reference = losses({}, 8);
  const auto compare = [&](const Recipe& recipe, double tolerance) {
    const auto curve = losses(recipe, 8);
    for (size_t i = 0; i < curve.size(); ++i)
      EXPECT_NEAR(curve[i], reference[i], tolerance) << to_json(recipe).dump() << " step " << i;
  };
  compare({.attention = Attention::flash}, 1e-4);
  compare({.optimizer = Optimizer::foreach}, 1e-4);
  compare({.optimizer = Optimizer::fused}, 1e-4);
  compare({.matmul_precision = MatmulPrecision::medium}, 2e-2);
  compare({.autocast = Autocast::bf16}, 2e-2);
}

TEST(Trainer, AccumulationIsABiggerBatch) {
  // Seed 0: both begin at the first token.
  const auto whole = losses({}, 4, {.B = 4, .T = 16, .seed = 0});
  const auto parts = losses({}, 4, {.B = 2, .T = 16, .accumulation = 2, .seed = 0});
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], parts[i], 1e-5) << i;
}

TEST(Trainer, Float16ScalesItsLossAndCountsSkippedSteps) {
  const TokenStream stream = text();
  Trainer trainer(preset("tiny"), {.autocast = Autocast::fp16, .optimizer = Optimizer::fused},
                  {.B = 2, .T = 32, .max_steps = 6}, stream);
  for (int i = 0; i < 6; ++i) trainer.step();
  for (const double loss : trainer.losses()) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_LT(trainer.skipped_steps(), 6);
}

TEST(Trainer, Float16SkipsStepsWhoseGradientsOverflow) {
  const TokenStream stream = text();
  for (const Optimizer optimizer : {Optimizer::loop, Optimizer::foreach, Optimizer::fused}) {
    Trainer trainer(preset("tiny"), {.autocast = Autocast::fp16, .optimizer = optimizer},
                    {.B = 2, .T = 32, .max_steps = 2}, stream);
    for (const Parameter& parameter : trainer.model().parameters()) {
      if (parameter.name == "ln_f.weight") parameter.tensor.data().fill_(1e6);  // beyond float16
    }
    const at::Tensor before = trainer.model().parameters().front().tensor.detach().clone();
    for (int i = 0; i < 2; ++i) trainer.step();
    EXPECT_EQ(trainer.skipped_steps(), 2);
    EXPECT_EQ(trainer.loss_scale(), 65536.0 / 4);
    EXPECT_TRUE(at::equal(trainer.model().parameters().front().tensor, before));
  }
}

TEST(Trainer, Float16MovesItsScaleWithEveryStep) {
  const TokenStream stream = text();
  constexpr int steps = 9;
  Trainer trainer(preset("tiny"), {.autocast = Autocast::fp16},
                  {.B = 1, .T = 16, .max_steps = steps, .scale_growth_interval = 1}, stream);
  for (int i = 0; i < steps; ++i) trainer.step();
  const auto skipped = static_cast<int>(trainer.skipped_steps());  // the scale grows until something overflows
  EXPECT_GT(skipped, 0);
  EXPECT_LT(skipped, steps);
  EXPECT_EQ(trainer.loss_scale(), std::ldexp(65536.0, steps - 2 * skipped));
}

TEST(Trainer, TellsItsPhases) {
  const TokenStream stream = text();
  Trainer trainer(preset("tiny"), {}, {.B = 1, .T = 8, .accumulation = 2, .max_steps = 1}, stream);
  std::string phases;
  trainer.on_phase = [&](std::string_view phase) { phases += std::string(phase) + ";"; };
  trainer.step();
  EXPECT_EQ(phases, "data;forward;backward;forward;backward;clip;update;;");
  EXPECT_THROW(trainer.step(), std::out_of_range);
}

TEST(Trainer, KnowsWhatItKeeps) {
  const TokenStream stream = text();
  const Trainer trainer(preset("tiny"), {.vocabulary_rows = 50304}, {.B = 1, .T = 8, .max_steps = 1}, stream);
  const Config config = preset("tiny");
  const int64_t elements = config.parameters() + (50304 - 50257) * config.n_embd;
  EXPECT_EQ(trainer.weight_bytes(), 4 * elements);
  EXPECT_EQ(trainer.optimizer_bytes(), 8 * elements);
}

TEST(Trainer, RefusesSizesThatCannotBe) {
  const TokenStream stream = text();
  const auto refused = [&](const TrainerOptions& options, const Recipe& recipe = {}) {
    EXPECT_THROW(Trainer(preset("tiny"), recipe, options, stream), std::invalid_argument);
  };
  refused({.B = 0, .T = 8});
  refused({.B = -1, .T = 8});
  refused({.B = 1, .T = 65});
  refused({.B = 1, .T = 0});
  refused({.B = 1, .T = 8, .accumulation = 0});
  refused({.B = 1, .T = 8, .max_steps = 0});
  refused({.B = 1000, .T = 64});  // more than the text has
  refused({.B = 1, .T = 8}, {.execution = Execution::graph});
  refused({.B = 1, .T = 8}, {.vocabulary_rows = 50000});
}

}  // namespace
