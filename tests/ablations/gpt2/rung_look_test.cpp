// Looks at the first steps of GPT-2's rungs: honest recipes are the same training, planted faults are another.
#include "ablations/gpt2/rung_look.h"

#include "ablations/techniques/operations.h"
#include "ablations/techniques/techniques.h"
#include "study/guard.h"
#include "study/same_training.h"
#include "tests/ablations/techniques/numbers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace rung_look_test {

using namespace ablations;
using namespace model;
using files::Json;
using study::Sameness;

// Made by client/look/ladder_sketch.py of the same numbers: within a block of signs, over several, over several parts.
TEST(RungLook, SumsAreThoseOfTheLookAtCommands) {
  const std::vector<std::pair<int64_t, std::array<double, 9>>> by_python{
      {7, {6.14505644807, 1.6875, 0.1875, -4.9375, -3.8125, 6.9375, -1.5625, -0.5625, -4.4375}},
      {200000, {847.788660741, -292.1875, -5.8125, -122.9375, 132.8125, 963.3125, -650.3125, 1188.0625, 1376.1875}},
      {1200000,
       {2076.65752228, -462.1875, -2016.4375, 162.9375, -1517.0625, 2105.0625, -1212.3125, 4200.0625, -877.8125}}};
  for (const auto& [count, sums] : by_python) {
    const at::Tensor index = at::arange(count, at::kLong);
    const auto found = sums_of(((index * index).remainder(97) - 48).to(at::kFloat) / 16);
    for (size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(found[i], sums[i], 1e-8) << count << " " << i;
  }
}

// What a step computes in place of what it should.
struct Fault {
  std::string name;
  std::function<void(Ops&)> ops = [](Ops&) {};
  std::function<void(TrainerOptions&)> options = [](TrainerOptions&) {};
};

TrainerOptions options_of(uint64_t seed, const Fault& fault) {
  TrainerOptions options{.B = 2, .T = 32, .max_steps = 16, .seed = seed};
  fault.options(options);
  return options;
}

Json look(const Recipe& recipe, uint64_t seed = 1, const Fault& fault = {},
          const std::optional<Rounding>& rounding = {}) {
  static const TokenStream stream = numbers::text();
  Trainer trainer(preset("tiny"), recipe, options_of(seed, fault), stream, step_parts());
  fault.ops(trainer.ops());
  return look_at_steps(trainer, 3, rounding);
}

std::vector<double> losses(const Recipe& recipe, const Fault& fault = {}) {
  static const TokenStream stream = numbers::text();
  Trainer trainer(preset("tiny"), recipe, options_of(1, fault), stream, step_parts());
  fault.ops(trainer.ops());
  for (int step = 0; step < 16; ++step) trainer.step();
  return trainer.losses();
}

// Of a recipe without faults, made once.
const Json& honest(const Recipe& recipe, uint64_t seed, int bits = 0, uint64_t again = 0) {
  static std::map<std::string, Json> made;
  Json& one = made[fmt::format("{} {} {} {}", to_json(recipe).dump(), seed, bits, again)];
  if (one.is_null()) one = look(recipe, seed, {}, bits > 0 ? std::optional(Rounding{bits, again}) : std::nullopt);
  return one;
}

// A rung's verdict beside a reference, as a study makes it of their files.
results::SameTraining judged(const Recipe& reference, const Recipe& recipe, uint64_t seed = 1,
                             const Fault* fault = nullptr) {
  const Json &first = honest(reference, seed),
             &other = fault == nullptr ? honest(recipe, seed) : look(recipe, seed, *fault);
  const auto type = study::least_exact_type(first, other).value();
  std::vector<study::Sketch> again;
  for (uint64_t i = 1; i <= study::looks_with_rounding; ++i) {
    again.push_back(study::sketch_of(honest(reference, seed, type.bits, i)["sketch"]));
  }
  const double offset = expected_losses(recipe).offset - expected_losses(reference).offset;
  return study::same_training(study::sketch_of(first["sketch"]), again, study::sketch_of(other["sketch"]), type.name,
                              -std::expm1(-std::abs(offset)));
}

// All gradients together, as by the rounding of the norm to which they are clipped: one look's up, the other's down.
TEST(RungLook, RoundingMovesAllGradientsTogether) {
  const auto norm = [](uint64_t again) {
    return honest({}, 1, 22, again)["sketch"]["parameters"][0]["gradients"][0][0].get<double>();
  };
  const double off = std::ldexp(std::sqrt(50257.0 * preset("tiny").n_embd / 16), -24);
  EXPECT_NEAR(norm(1) / norm(2) - 1, 2 * off, off / 2);
}

const Recipe in_bf16{.autocast = Autocast::bf16};
const Recipe fused{.attention = Attention::packed,
                   .cross_entropy = CrossEntropy::fused,
                   .norm = Norm::fused,
                   .mlp = Mlp::fused,
                   .vocabulary_rows = 50304,
                   .optimizer = Optimizer::fused,
                   .weights = Weights::master};

Recipe with_bf16(Recipe recipe) {
  recipe.autocast = Autocast::bf16;
  return recipe;
}

std::vector<Recipe> honest_recipes() {
  Recipe packed = fused;
  packed.products = Products::packed;
  Recipe in_fp8 = with_bf16(fused);
  in_fp8.fp8 = Fp8::all;
  return {{.attention = Attention::flash},
          {.optimizer = Optimizer::fused},
          {.vocabulary_rows = 50304},
          {.matmul_precision = MatmulPrecision::medium},
          in_bf16,
          {.autocast = Autocast::bf16, .attention = Attention::flash, .residual = Residual::autocast},
          fused,
          packed,
          with_bf16(fused),
          in_fp8,
          {.autocast = Autocast::fp16}};
}

TEST(RungLook, HonestRecipesAreTheSameTraining) {
  for (const Recipe& recipe : honest_recipes()) {
    const auto verdict = judged({}, recipe);
    fmt::print("{}: {}\n", recipe_diff({}, recipe).dump(), verdict.words);
    EXPECT_EQ(verdict.verdict, Sameness::same) << recipe_diff({}, recipe).dump() << ": " << verdict.words;
  }
  // The other way round, as where each optimization is left out: the reference is fused.
  for (const Recipe& reference : {fused, with_bf16(fused)}) {
    for (const Recipe& recipe : {Recipe{}, in_bf16, fused, with_bf16(fused)}) {
      const auto verdict = judged(reference, recipe);
      EXPECT_EQ(verdict.verdict, Sameness::same) << recipe_diff(reference, recipe).dump() << ": " << verdict.words;
    }
  }
}

TEST(RungLook, Bfloat16IsNeverAccused) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const Recipe& recipe : {in_bf16, with_bf16(fused)}) {
      const auto verdict = judged({}, recipe, seed);
      EXPECT_EQ(verdict.verdict, Sameness::same) << seed << ": " << verdict.words;
    }
  }
}

// An operation of one layer: the `at`-th call of each step.
auto at_call(int at, int calls, auto right, auto wrong) {
  return [=, call = 0](const auto&... arguments) mutable {
    return call++ % calls == at ? wrong(arguments...) : right(arguments...);
  };
}

std::vector<Fault> faults() {
  using at::Tensor;
  constexpr int layers = 2;
  return {
      {.name = "attention without its scale",
       .ops =
           [](Ops& ops) {
             ops.attention = [own = ops.attention](const Tensor& q, const Tensor& k, const Tensor& v) {
               return own(q * std::sqrt(static_cast<double>(q.size(3))), k, v);
             };
           }},
      {.name = "attention without its mask",
       .ops =
           [](Ops& ops) {
             ops.attention = [](const Tensor& q, const Tensor& k, const Tensor& v) {
               const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
               return at::matmul(at::softmax(at::matmul(q, k.transpose(-2, -1)) * scale, -1), v);
             };
           }},
      {.name = "mask off by one",
       .ops =
           [](Ops& ops) {
             ops.attention = [](const Tensor& q, const Tensor& k, const Tensor& v) {
               const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
               const Tensor future = at::ones({q.size(2), q.size(2)}, at::kBool).triu(2);
               const Tensor scores = at::matmul(q, k.transpose(-2, -1)) * scale;
               return at::matmul(at::softmax(scores.masked_fill(future, -std::numeric_limits<float>::infinity()), -1),
                                 v);
             };
           }},
      {.name = "no weight decay", .options = [](TrainerOptions& options) { options.weight_decay = 0; }},
      {.name = "learning rate doubled", .options = [](TrainerOptions& options) { options.schedule.peak *= 2; }},
      {.name = "no clipping",
       .options = [](TrainerOptions& options) { options.max_norm = std::numeric_limits<double>::infinity(); }},
      {.name = "gradient of half a batch",
       .ops =
           [](Ops& ops) {
             ops.cross_entropy = [](const Tensor& logits, const Tensor& targets) {
               const auto parts = logits.flatten(0, 1).chunk(2);
               return at::cross_entropy_loss(at::cat({parts[0], parts[1].detach()}), targets.flatten());
             };
           }},
      {.name = "a norm without its weight",
       .ops =
           [](Ops& ops) {
             const auto without = [own = ops.layer_norm](const Tensor& x, const Tensor& weight, const Tensor& bias,
                                                         double eps) {
               return own(x, at::ones_like(weight) + 0 * weight, bias, eps);
             };
             ops.layer_norm = at_call(1, 2 * layers + 1, ops.layer_norm, without);
           }},
      {.name = "biases without gradients",
       .ops =
           [](Ops& ops) {
             ops.linear = [own = ops.linear](const Tensor& x, const Tensor& weight, const Tensor& bias) {
               return own(x, weight, bias.detach() + 0 * bias);
             };
           }},
      {.name = "a residual dropped",
       .ops =
           [](Ops& ops) {
             const auto dropped = [](const Tensor& x, const Tensor& y) { return x.detach() + y; };
             ops.residual = at_call(2, 2 * layers, ops.residual, dropped);
           }},
      {.name = "dropout left on",
       .ops =
           [](Ops& ops) { ops.gelu = [own = ops.gelu](const Tensor& x) { return at::dropout(own(x), 0.1, true); }; }},
      {.name = "positions off by one",
       .ops =
           [](Ops& ops) {
             ops.embed = [own = ops.embed](const Tensor& tokens, const Tensor& wte, const Tensor& wpe) {
               return own(tokens, wte, wpe.roll(1, 0));
             };
           }},
      {.name = "GELU without its curve",
       .ops = [](Ops& ops) { ops.gelu = [](const Tensor& x) { return at::relu(x); }; }},
      {.name = "untied head",
       .ops =
           [](Ops& ops) {
             ops.head = [own = ops.head](const Tensor& x, const Tensor& wte) { return own(x, wte.detach()); };
           }},
  };
}

// The table of docs/same-training.md: found by a look, beside bf16, and by the guard of 16 losses.
TEST(RungLook, PlantedFaultsAreFound) {
  const std::vector<double> reference = losses({});
  int beside_bf16 = 0, by_losses = 0;
  for (const Fault& fault : faults()) {
    const auto exact = judged({}, {}, 1, &fault), rough = judged({}, in_bf16, 1, &fault);
    const auto guard = study::guard(losses({}, fault), reference, expected_losses({}).tolerance, 0);
    const bool found_beside = rough.verdict == Sameness::another;
    beside_bf16 += found_beside ? 1 : 0;
    by_losses += guard.passed ? 0 : 1;
    EXPECT_EQ(exact.verdict, Sameness::another) << fault.name << ": " << exact.words;
    fmt::print("| {} | {} | {} | {} |\n", fault.name, exact.verdict == Sameness::another ? "yes" : "no",
               found_beside ? "yes" : "no", guard.passed ? "no" : "yes");
  }
  EXPECT_GE(beside_bf16, 12);  // weight decay is less than what bf16 does
  EXPECT_LE(by_losses, 4);
}

}  // namespace rung_look_test
