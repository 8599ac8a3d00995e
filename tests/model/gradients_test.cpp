// Gradients that stay in place: what is written and what is added, and the gradients of a whole model in them, in steps
// of one and of two micro-steps.
#include "model/gradients.h"

#include "ablations/techniques/operations.h"
#include "ablations/techniques/products/linear.h"
#include "model/gpt2.h"
#include "model/ops.h"
#include "model/precision.h"
#include "model/trainer.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <vector>

namespace gradients_test {

using at::Tensor;
using namespace model;

Recipe recipe_of(Weights weights, Autocast autocast = Autocast::off, Products products = Products::aten) {
  return {.autocast = autocast,
          .cross_entropy = CrossEntropy::fused,
          .products = products,
          .norm = Norm::fused,
          .mlp = Mlp::fused,
          .optimizer = Optimizer::fused,
          .weights = weights};
}

double relative_error(const Tensor& found, const Tensor& expected) {
  return ((found.to(at::kDouble) - expected.to(at::kDouble)).norm() / expected.to(at::kDouble).norm()).item<double>();
}

TEST(Gradients, TheFirstOfAStepIsWrittenAndOthersAreAdded) {
  const std::vector<Parameter> parameters{{"a", at::randn({2, 3}).requires_grad_(true)},
                                          {"b", at::randn({4}, at::kBFloat16).requires_grad_(true)}};
  Gradients gradients(parameters);
  const Tensor &a = parameters[0].tensor, &b = parameters[1].tensor;
  EXPECT_FALSE(a.requires_grad() || b.requires_grad());
  EXPECT_EQ(b.grad().scalar_type(), at::kFloat);
  const void* const where = a.grad().const_data_ptr();
  const Tensor ones = at::ones({2, 3});
  for (const int step : {1, 2}) {
    gradients.begin_step();
    EXPECT_FALSE(deliver(&gradients, a, ones * step).defined());
    EXPECT_TRUE(at::equal(a.grad(), ones * step)) << step;  // nothing of the step before
    (void)deliver(&gradients, a, ones);
    (void)deliver(&gradients, b, at::ones({4}));  // each has its own first
    EXPECT_TRUE(at::equal(a.grad(), ones * (step + 1))) << step;
    EXPECT_TRUE(at::equal(b.grad(), at::ones({4}))) << step;
  }
  EXPECT_EQ(a.grad().const_data_ptr(), where);
  EXPECT_THROW((void)gradients.place_of(at::ones({2, 3})), std::logic_error);
  EXPECT_TRUE(at::equal(deliver(nullptr, a, ones), ones));  // autograd's
}

TEST(Gradients, ProductsAreMadeInTheirPlace) {
  at::manual_seed(5);
  const std::vector<Parameter> parameters{{"w", at::randn({7, 5})}};
  Gradients gradients(parameters);
  const Tensor &w = parameters[0].tensor, dy = at::randn({33, 7}), x = at::randn({33, 5});
  const Tensor exact = at::mm(dy.t().to(at::kDouble), x.to(at::kDouble));
  for (const LinearProducts* products : {&aten_products, &packed_products}) {
    const auto gradient = products->weight_gradient;
    gradients.begin_step();
    w.grad().fill_(NAN);  // what is there does not matter
    EXPECT_FALSE(gradient(&gradients, w, dy, x).defined());
    EXPECT_LT(relative_error(w.grad(), exact), 1e-6);
    (void)gradient(&gradients, w, dy, x);
    EXPECT_LT(relative_error(w.grad(), 2 * exact), 1e-6);
    EXPECT_LT(relative_error(gradient(nullptr, w, dy, x), exact), 1e-6);
  }
  // Of 16-bit factors, in float32.
  gradients.begin_step();
  for (const int times : {1, 2}) {
    (void)aten_products.weight_gradient(&gradients, w, dy.to(at::kBFloat16), x.to(at::kBFloat16));
    EXPECT_LT(relative_error(w.grad(), times * exact), 1e-2);
  }
}

// Every parameter's gradient after the second of two steps, which leave the weights alone. Weights are bf16 numbers, so
// that those which are split differ in nothing. Tokens come more than once. `reduce`: of the last micro-step.
std::vector<Parameter> gradients_of_steps(const Recipe& recipe, int64_t micro_steps,
                                          const Gradients::Reduce& reduce = nullptr) {
  GPT2 gpt2(preset("tiny"), 50257, 1, at::kCPU);
  for (const Parameter& parameter : gpt2.parameters()) {
    const at::NoGradGuard no_grad;
    parameter.tensor.copy_(parameter.tensor.to(at::kBFloat16));
  }
  std::optional<Gradients> gradients;
  if (recipe.weights == Weights::master) {
    if (recipe.autocast == Autocast::bf16) gpt2.split_weights();
    gradients.emplace(gpt2.parameters());
  }
  const Ops ops = ops_for(recipe, gradients ? &*gradients : nullptr);
  const double share = 1.0 / static_cast<double>(micro_steps);
  for (const int64_t step : {0, 1}) {
    if (gradients) {
      gradients->begin_step(share);
    } else {
      for (const Parameter& parameter : gpt2.parameters()) parameter.tensor.mutable_grad() = Tensor();
    }
    for (int64_t i = 0; i < micro_steps; ++i) {
      const Tensor numbers = at::arange(2 * 33, at::kLong) + 100 * (2 * i + step);
      const Tensor tokens = (numbers * numbers).remainder(47).mul(1009).view({2, 33});
      Tensor loss;
      {
        const AutocastScope scope(at::kCPU, recipe.autocast);
        loss = gpt2.loss(ops, tokens.narrow(1, 0, 32), tokens.narrow(1, 1, 32)) * share;
      }
      if (reduce && i + 1 == micro_steps) {
        gradients->backward(loss, reduce);
      } else {
        loss.backward();
      }
    }
  }
  return gpt2.parameters();
}

void expect_same_gradients(const Recipe& tried, const Recipe& reference, double tolerance) {
  for (const int64_t micro_steps : {1, 2}) {
    const std::vector<Parameter> seen = gradients_of_steps(tried, micro_steps),
                                 expected = gradients_of_steps(reference, micro_steps);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LT(relative_error(seen[i].tensor.grad(), expected[i].tensor.grad()), tolerance)
          << expected[i].name << ", " << micro_steps << " micro-steps, " << to_json(tried).dump();
    }
  }
}

TEST(Gradients, OfAModelAreTheReferences) {
  Recipe separate = recipe_of(Weights::separate);
  separate.attention = Attention::packed;
  for (const Recipe& recipe :
       {separate, recipe_of(Weights::master), recipe_of(Weights::master, Autocast::off, Products::packed)}) {
    expect_same_gradients(recipe, Recipe{}, 2e-5);
  }
  // Split weights: biases' gradients are sums in float32 here, in bfloat16 there.
  expect_same_gradients(recipe_of(Weights::master, Autocast::bf16), recipe_of(Weights::separate, Autocast::bf16), 1e-2);
}

// A chunk is doubled once it is said to be complete. What was written to it later would not be.
TEST(Gradients, AreReducedWhenTheyAreComplete) {
  const Recipe recipe = recipe_of(Weights::master);
  for (const int64_t micro_steps : {1, 2}) {
    int64_t numbers = 0, chunks = 0;
    const std::vector<Parameter> once = gradients_of_steps(recipe, micro_steps),
                                 twice = gradients_of_steps(recipe, micro_steps, [&](Tensor chunk) {
                                   chunk.mul_(2);
                                   numbers += chunk.numel();
                                   ++chunks;
                                 });
    for (size_t i = 0; i < once.size(); ++i) {
      EXPECT_TRUE(at::equal(twice[i].tensor.grad(), 2 * once[i].tensor.grad())) << once[i].name;
    }
    EXPECT_EQ(numbers, 2 * (preset("tiny").parameters() + 2)) << "in two steps, with values()";
    EXPECT_EQ(chunks, 2 * (preset("tiny").n_layer + 1));
  }
  Gradients gradients(GPT2(preset("tiny"), 50257, 1, at::kCPU).parameters());
  const Tensor other = at::ones({}).requires_grad_(true);
  EXPECT_THROW(gradients.backward(other * 2, [](const Tensor&) {}), std::logic_error) << "no layer";
}

TEST(Gradients, ALossWithAnotherFactorIsRefused) {
  const GPT2 gpt2(preset("tiny"), 50257, 1, at::kCPU);
  Gradients gradients(gpt2.parameters());
  const Ops ops = ops_for(recipe_of(Weights::master), &gradients);
  const Tensor tokens = at::arange(2 * 8, at::kLong).view({2, 8});
  gradients.begin_step(0.5);
  EXPECT_THROW(gpt2.loss(ops, tokens, tokens).backward(), std::exception);
  gradients.begin_step(0.5);
  EXPECT_NO_THROW((gpt2.loss(ops, tokens, tokens) * 0.5).backward());
}

TEST(MasterWeights, AreRefusedWhereTheyCannotBe) {
  const TokenStream text{std::vector<uint16_t>(100)};
  const auto refused = [&](const Recipe& recipe) {
    EXPECT_FALSE(master_weights_obstacle(recipe).empty());
    EXPECT_THROW(Trainer(preset("tiny"), recipe, {.B = 1, .T = 8}, text, step_parts()), std::invalid_argument);
  };
  refused({.weights = Weights::master});
  refused(recipe_of(Weights::master, Autocast::fp16));
  EXPECT_EQ(master_weights_obstacle(recipe_of(Weights::master)), "");
  for (const auto& edit : {+[](Recipe& recipe) { recipe.norm = Norm::aten; },
                           +[](Recipe& recipe) { recipe.optimizer = Optimizer::foreach; },
                           +[](Recipe& recipe) { recipe.qkv_products = QkvProducts::three; }}) {
    Recipe recipe = recipe_of(Weights::master);
    edit(recipe);
    refused(recipe);
  }
}

}  // namespace gradients_test
