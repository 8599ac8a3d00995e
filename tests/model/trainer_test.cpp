// A step under every recipe of the CPU: it learns, it repeats to the bit, it goes on to the bit from what was kept,
// accumulation adds up, sizes are checked.
#include "model/trainer.h"

#include "ablations/techniques/operations.h"
#include "files/files.h"
#include "model/checkpoint.h"
#include "model/safetensors.h"
#include "model/sampler.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace trainer_test {

using namespace model;

TokenStream text() {
  TokenStream stream;
  for (int i = 0; i < 5000; ++i) stream.tokens.push_back(static_cast<uint16_t>(i * i % 97 * 500));
  return stream;
}

std::vector<double> losses(const Recipe& recipe, int64_t steps, TrainerOptions options = {.B = 2, .T = 32}) {
  static const TokenStream stream = text();
  options.max_steps = steps;
  Trainer trainer(preset("tiny"), recipe, options, stream, step_parts());
  for (int64_t i = 0; i < steps; ++i) trainer.step();
  return trainer.losses();
}

TEST(Trainer, LearnsATextThatRepeats) {
  const auto curve =
      losses({.optimizer = Optimizer::fused}, 60, {.B = 4, .T = 32, .schedule = {.peak = 1e-2, .floor = 1e-3}});
  EXPECT_NEAR(curve.front(), std::log(50257.0), 0.1);
  EXPECT_LT(curve.back(), 5.0);
}

// Recipes that keep different things: the scaler, padding rows, bf16 weights with their remainders, ...
std::vector<Recipe> recipes_that_keep_different_things() {
  const Recipe master{.attention = Attention::packed,
                      .cross_entropy = CrossEntropy::fused,
                      .norm = Norm::fused,
                      .mlp = Mlp::fused,
                      .optimizer = Optimizer::fused,
                      .weights = Weights::master};
  Recipe split = master;
  split.autocast = Autocast::bf16;
  split.vocabulary_rows = 50304;
  Recipe packed = master;
  packed.products = Products::packed;
  return {{},
          {.optimizer = Optimizer::foreach},
          {.autocast = Autocast::bf16,
           .attention = Attention::flash,
           .vocabulary_rows = 50304,
           .optimizer = Optimizer::fused},
          {.autocast = Autocast::fp16, .optimizer = Optimizer::loop},
          master,
          packed,
          split};
}

// Each repeats itself to the bit, which the tests of going on and of evaluating show.
TEST(Trainer, RecipesLearnTheSame) {
  const auto reference = losses({}, 8);
  const auto compare = [&](Recipe recipe, double tolerance) {
    const auto curve = losses(recipe, 8);
    for (size_t i = 0; i < curve.size(); ++i)
      EXPECT_NEAR(curve[i], reference[i], tolerance) << to_json(recipe).dump() << " step " << i;
    recipe.deterministic = true;  // on a CPU no other arithmetic
    EXPECT_EQ(losses(recipe, 8), curve) << to_json(recipe).dump();
  };
  compare({.attention = Attention::flash}, 1e-4);
  compare({.optimizer = Optimizer::fused}, 1e-4);
  compare({.matmul_precision = MatmulPrecision::medium}, 2e-2);
  compare({.autocast = Autocast::bf16}, 2e-2);
  for (const Recipe& recipe : recipes_that_keep_different_things()) {
    const bool is_exact = recipe.autocast == Autocast::off;
    if (recipe.autocast != Autocast::fp16) compare(recipe, is_exact ? 1e-4 : 2e-2);
  }
  EXPECT_NE(losses({}, 2, {.B = 2, .T = 32, .seed = 1}), losses({}, 2, {.B = 2, .T = 32, .seed = 2}));
}

TEST(Trainer, AccumulationIsABiggerBatch) {
  // Seed 0: both begin at the first token.
  const auto whole = losses({}, 4, {.B = 4, .T = 16, .seed = 0});
  const auto parts = losses({}, 4, {.B = 2, .T = 16, .accumulation = 2, .seed = 0});
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], parts[i], 1e-5) << i;
}

TEST(Trainer, Float16MovesItsScaleWithEveryStep) {
  const TokenStream stream = text();
  constexpr int steps = 9;
  Trainer trainer(preset("tiny"), {.autocast = Autocast::fp16},
                  {.B = 1, .T = 16, .max_steps = steps, .scale_growth_interval = 1}, stream, step_parts());
  for (int i = 0; i < steps; ++i) trainer.step();
  for (const double loss : trainer.losses()) EXPECT_TRUE(std::isfinite(loss));
  const auto skipped = static_cast<int>(trainer.skipped_steps());  // the scale grows until something overflows
  EXPECT_GT(skipped, 0);
  EXPECT_LT(skipped, steps);
  EXPECT_EQ(trainer.loss_scale(), std::ldexp(65536.0, steps - 2 * skipped));
}

TEST(Trainer, GoesOnToTheBitFromWhatWasKept) {
  const TokenStream stream = text();
  const files::TemporaryFolder folder("trainer-test");
  const auto weights = folder.path() / "weights", state = folder.path() / "state";
  constexpr int64_t steps = 7, half = 4;
  for (const Recipe& recipe : recipes_that_keep_different_things()) {
    TrainerOptions options{.B = 2,
                           .T = 16,
                           .accumulation = 2,
                           .max_steps = steps,
                           .seed = 3,
                           .schedule = {.peak = 1e-2, .floor = 1e-3, .warmup_steps = 2, .decay_steps = 6},
                           .scale_growth_interval = 3};
    Trainer whole(preset("tiny"), recipe, options, stream, step_parts());
    for (int64_t i = 0; i < half; ++i) whole.step();
    save_weights(whole.model(), weights);
    write_safetensors(state, whole.state());
    for (int64_t i = half; i < steps; ++i) whole.step();

    options.first_step = half;
    Trainer second(preset("tiny"), recipe, options, stream, step_parts());
    load_weights(second.model(), weights);
    second.load_state(read_safetensors(state), "state");
    EXPECT_EQ(second.steps_taken(), half);
    for (int64_t i = half; i < steps; ++i) second.step();
    const auto expected = whole.values(half), found = second.values(half);
    ASSERT_EQ(found.size(), static_cast<size_t>(steps - half));
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].loss, expected[i].loss) << to_json(recipe).dump() << " " << i;
      EXPECT_EQ(found[i].norm, expected[i].norm) << to_json(recipe).dump() << " " << i;
    }
    for (size_t i = 0; i < whole.model().parameters().size(); ++i) {
      const Parameter &one = whole.model().parameters()[i], &other = second.model().parameters()[i];
      EXPECT_TRUE(at::equal(whole_weight(one), whole_weight(other))) << to_json(recipe).dump() << " " << one.name;
    }
    const auto last = second.state();
    for (const auto& [name, tensor] : whole.state()) EXPECT_TRUE(at::equal(tensor, last.at(name))) << name;
    EXPECT_EQ(second.skipped_steps(), whole.skipped_steps());

    // Without the state it would be another training.
    Trainer forgetful(preset("tiny"), recipe, options, stream, step_parts());
    load_weights(forgetful.model(), weights);
    for (int64_t i = half; i < steps; ++i) forgetful.step();
    EXPECT_NE(forgetful.losses(), second.losses()) << to_json(recipe).dump();
  }
}

TEST(Trainer, RefusesTheStateOfAnother) {
  const TokenStream stream = text();
  const TrainerOptions options{.B = 1, .T = 8, .max_steps = 1};
  Trainer trainer(preset("tiny"), {.vocabulary_rows = 50304}, options, stream, step_parts());
  auto state = trainer.state();
  const auto refusal = [&] { return refusal_of([&] { trainer.load_state(state, "file"); }); };
  EXPECT_EQ(refusal(), "accepted");
  state["padding.wte.weight"] = at::zeros({46, 32});
  EXPECT_EQ(refusal(),
            "file: tensor \"padding.wte.weight\" must be Float of shape (47, 32), got Float of shape (46, 32)");
  state["padding.wte.weight"] = at::zeros({47, 32}, at::kDouble);
  EXPECT_NE(refusal().find("got Double of shape (47, 32)"), std::string::npos);
  state.erase("padding.wte.weight");
  EXPECT_EQ(refusal(), "file: tensor \"padding.wte.weight\" is missing");
  state = trainer.state();
  state["scaler.scale"] = at::ones({1});
  EXPECT_EQ(refusal(), "file: tensor \"scaler.scale\" is not a part of this training's state");
}

TEST(Trainer, EvaluatingAndSamplingChangeNothing) {
  const TokenStream stream = text();
  TokenStream other;
  for (int i = 0; i < 200; ++i) other.tokens.push_back(static_cast<uint16_t>(i * 37 % 50257));
  const std::vector<uint16_t> text_before{1, 7920, 38339};
  for (const Recipe& recipe : recipes_that_keep_different_things()) {
    const TrainerOptions options{.B = 2,
                                 .T = 16,
                                 .accumulation = 2,
                                 .max_steps = 4,
                                 .seed = 0,
                                 .schedule = {.peak = 3e-3, .floor = 3e-4, .warmup_steps = 1}};
    Trainer left_alone(preset("tiny"), recipe, options, stream, step_parts()),
        evaluated(preset("tiny"), recipe, options, stream, step_parts());
    // The first two windows are the micro-steps of the first step.
    const double before = evaluated.evaluate(stream, 2);
    for (int i = 0; i < 4; ++i) {
      left_alone.step();
      evaluated.step();
      (void)evaluated.evaluate(other, 3);
      const SampleOptions options_of_text{.tokens = 5, .stop_at_end_of_text = false};
      const auto sampled = evaluated.sample(text_before, options_of_text);
      EXPECT_EQ(sampled.size(), 5U);
      EXPECT_EQ(sampled, evaluated.sample(text_before, options_of_text));
    }
    EXPECT_EQ(evaluated.losses(), left_alone.losses()) << to_json(recipe).dump();
    EXPECT_NEAR(before, evaluated.losses().front(), 1e-5) << to_json(recipe).dump();
    EXPECT_LT(evaluated.evaluate(stream, 2), before) << "it has learned " << to_json(recipe).dump();
    EXPECT_EQ(evaluated.evaluate(other, 3), evaluated.evaluate(other, 3));
    EXPECT_THROW((void)evaluated.evaluate({.tokens = {1, 2, 3}, .source = "few", .sha256 = ""}, 1),
                 std::invalid_argument);
  }
}

TEST(Trainer, KeepsTheNormOfEachStepAndWhatItWasClippedBy) {
  const TokenStream stream = text();
  for (const double max_norm : {0.1, 1e3, static_cast<double>(INFINITY)}) {
    Trainer trainer(preset("tiny"), {}, {.B = 2, .T = 16, .max_steps = 3, .max_norm = max_norm}, stream, step_parts());
    for (int i = 0; i < 3; ++i) trainer.step();
    for (const StepValues& step : trainer.values(0)) {
      EXPECT_GT(step.norm, 0.1);
      EXPECT_NEAR(step.clip, std::min(1.0, max_norm / (step.norm + 1e-6)), 1e-6);
    }
    EXPECT_EQ(trainer.values(1).size(), 2U);
    EXPECT_EQ(trainer.values(1).front().loss, trainer.losses()[1]);
    // The gradients of the last step are still there, clipped.
    double squares = 0;
    for (const Parameter& parameter : trainer.model().parameters()) {
      squares += parameter.tensor.grad().to(at::kDouble).square().sum().item<double>();
    }
    const StepValues last = trainer.values(2).front();
    EXPECT_NEAR(std::sqrt(squares) / (last.norm * last.clip), 1, 1e-4);
  }
}

std::string told;

// Before a step its operations are asked ("?") what it takes for granted. What a backward pass leaves is added up ("!")
// before anything else reads or adds to the gradients of master weights.
TEST(Trainer, TellsItsPhases) {
  const TokenStream stream = text();
  StepParts parts = step_parts();
  parts.finish = [](Gradients&) { told += '!'; };
  Trainer trainer(preset("tiny"), recipes_that_keep_different_things().back(),
                  {.B = 1, .T = 8, .accumulation = 2, .max_steps = 1}, stream, parts);
  trainer.on_phase = [&](std::string_view phase) { told += std::string(phase) + ";"; };
  trainer.ops().before_step = [] { told += '?'; };
  trainer.step();
  EXPECT_EQ(told, "data;?forward;backward;!forward;backward;!clip;update;;");
  EXPECT_THROW(trainer.step(), std::out_of_range);
}

TEST(Trainer, KnowsWhatItKeeps) {
  const TokenStream stream = text();
  for (const Recipe& recipe : {Recipe{.vocabulary_rows = 50304}, recipes_that_keep_different_things().back()}) {
    const Trainer trainer(preset("tiny"), recipe, {.B = 1, .T = 8, .max_steps = 1}, stream, step_parts());
    const int64_t elements = preset("tiny").parameters() + (50304 - 50257) * preset("tiny").n_embd;
    EXPECT_EQ(trainer.weight_bytes(), 4 * elements);
    EXPECT_EQ(trainer.optimizer_bytes(), 8 * elements);
  }
}

TEST(Trainer, RefusesSizesThatCannotBe) {
  const TokenStream stream = text();
  const auto refused = [&](const TrainerOptions& options, const Recipe& recipe = {}) {
    EXPECT_THROW(Trainer(preset("tiny"), recipe, options, stream, step_parts()), std::invalid_argument);
  };
  refused({.B = 0, .T = 8});
  refused({.B = -1, .T = 8});
  refused({.B = 1, .T = 65});
  refused({.B = 1, .T = 0});
  refused({.B = 1, .T = 8, .accumulation = 0});
  refused({.B = 1, .T = 8, .max_steps = 0});
  refused({.B = 1, .T = 8, .max_steps = 3, .first_step = 4});
  refused({.B = 1000, .T = 64});  // more than the text has
  refused({.B = 1, .T = 8}, {.execution = Execution::graph});
  refused({.B = 1, .T = 8}, {.vocabulary_rows = 50000});
}

}  // namespace trainer_test
