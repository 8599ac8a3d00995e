// The fused operations against the reference's in float64: values and gradients, over sizes that are multiples of
// nothing, in float32 and bfloat16. tests/CMakeLists.txt runs them with the loops of lower instruction sets, too.
#include "ablations/techniques/operations.h"
#include "model/gpt2.h"
#include "model/ops.h"
#include "model/precision.h"
#include "tests/model/parameter.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

namespace model_fused_test {

using at::Tensor;
using namespace model;

const Recipe fused{
    .attention = Attention::packed, .cross_entropy = CrossEntropy::fused, .norm = Norm::fused, .mlp = Mlp::fused};

struct Case {
  std::string name;
  std::vector<std::vector<int64_t>> shapes;  // of what gets gradients
  size_t activations;                        // how many of them a step hands on in the autocast or the stream's type
  std::function<std::vector<Tensor>(const Ops&, const std::vector<Tensor>&)> forward;
};

// x (B, T, C) and the hidden width H.
Case add_norm_case(int64_t B, int64_t T, int64_t C) {
  return {"add_norm", {{B, T, C}, {B, T, C}, {C}, {C}}, 2, [](const Ops& ops, const auto& x) {
            const Ops::Normed result = ops.add_norm(ops, {0, "ln_2", 0}, x[0], x[1], Affine{x[2], x[3]}, 1e-5);
            return std::vector<Tensor>{result.x, result.normalized};
          }};
}
Case norm_case(int64_t B, int64_t T, int64_t C) {
  return {
      "norm", {{B, T, C}, {C}, {C}}, 1, [](const Ops& ops, const auto& x) {
        return std::vector<Tensor>{ops.add_norm(ops, {0, "ln_1"}, x[0], Tensor(), Affine{x[1], x[2]}, 1e-5).normalized};
      }};
}
Case mlp_case(int64_t B, int64_t T, int64_t C) {
  return {"mlp", {{B, T, C}, {4 * C, C}, {4 * C}, {C, 4 * C}, {C}}, 1, [](const Ops& ops, const auto& x) {
            return std::vector<Tensor>{ops.mlp(ops, 0, x[0], Affine{x[1], x[2]}, Affine{x[3], x[4]})};
          }};
}
Case attention_case(int64_t B, int64_t T, int64_t C, int64_t NH) {
  return {"attention", {{B, T, C}, {3 * C, C}, {3 * C}}, 1, [NH](const Ops& ops, const auto& x) {
            return std::vector<Tensor>{ops.self_attention(ops, 0, x[0], Affine{x[1], x[2]}, NH)};
          }};
}
Case loss_case(int64_t B, int64_t T, int64_t C, int64_t V) {
  return {"head_loss", {{B, T, C}, {V, C}}, 1, [=](const Ops& ops, const auto& x) {
            const Tensor targets = at::arange(B * T).mul(37).remainder(V).view({B, T});
            return std::vector<Tensor>{ops.head_loss(ops, x[0], x[1], targets, V)};
          }};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& [B, T, C] : std::vector<std::array<int64_t, 3>>{{2, 24, 32}, {1, 1, 7}, {3, 5, 37}, {1, 61, 130}}) {
    all.push_back(add_norm_case(B, T, C));
    all.push_back(norm_case(B, T, C));
    all.push_back(mlp_case(B, T, C));
    all.push_back(loss_case(B, T, C, /*V=*/101));
    all.push_back(attention_case(B, T, C, /*NH=*/1));
  }
  all.push_back(attention_case(2, 150, 48, /*NH=*/3));  // five blocks of queries, the last of 22
  return all;
}

double relative_error(const Tensor& found, const Tensor& expected) {
  const Tensor wanted = expected.to(at::kDouble);
  const double norm = wanted.norm().item<double>();
  return (found.to(at::kDouble) - wanted).norm().item<double>() / (norm == 0 ? 1 : norm);
}

// The worst relative error of the results and of every gradient.
double worst_error(const Case& one, Autocast autocast, Products products) {
  Recipe recipe = fused;
  recipe.products = products;
  at::Generator generator = at::detail::createCPUGenerator(17);
  std::vector<Tensor> exact, tried;
  for (size_t i = 0; i < one.shapes.size(); ++i) {
    // Weights of about 1 / sqrt(fan-in), so that results are of about 1.
    const double std = one.shapes[i].size() == 2 ? 1 / std::sqrt(static_cast<double>(one.shapes[i][1])) : 1.0;
    const Tensor values = at::empty(one.shapes[i]).normal_(0.0, std, generator);
    exact.push_back(values.to(at::kDouble).requires_grad_(true));
    tried.push_back(values.clone().requires_grad_(true));
  }
  const std::vector<Tensor> expected = one.forward(reference_ops(), exact);
  std::vector<Tensor> seen;
  {
    const AutocastScope scope(at::kCPU, autocast);
    seen = one.forward(ops_for(recipe), tried);
  }
  double worst = 0;
  Tensor sum_expected = at::zeros({}, at::kDouble), sum_seen = at::zeros({}, at::kDouble);
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, relative_error(seen[i], expected[i]));
    const Tensor upstream = at::empty(expected[i].sizes()).normal_(0.0, 1.0, generator);
    sum_expected = sum_expected + (expected[i] * upstream.to(at::kDouble)).sum();
    sum_seen = sum_seen + (seen[i].to(at::kDouble) * upstream.to(at::kDouble)).sum();
  }
  sum_expected.backward();
  sum_seen.backward();
  for (size_t i = 0; i < exact.size(); ++i) worst = std::max(worst, relative_error(tried[i].grad(), exact[i].grad()));
  return worst;
}

TEST(Fused, FollowFloat64) {
  for (const auto& [autocast, products, limit] : {std::tuple{Autocast::off, Products::aten, 2e-6},
                                                  {Autocast::off, Products::packed, 2e-6},
                                                  {Autocast::bf16, Products::aten, 2e-2}}) {
    for (const Case& one : cases()) {
      EXPECT_LT(worst_error(one, autocast, products), limit) << one.name << " of " << one.shapes[0];
    }
  }
}

// Padding rows are no words: the loss is that of the vocabulary without them, and they get no gradient from the head.
TEST(Fused, PaddingRowsAreLeftOutOfTheLoss) {
  const Tensor tokens = at::arange(2 * 33, at::kLong).mul(7919).remainder(50257).view({2, 33});
  const Tensor x = tokens.narrow(1, 0, 32), y = tokens.narrow(1, 1, 32);
  const GPT2 plain(preset("tiny"), 50257, 1, at::kCPU), padded(preset("tiny"), 50304, 1, at::kCPU);
  const Tensor loss = padded.loss(ops_for(fused), x, y);
  EXPECT_NEAR(loss.item<double>(), plain.loss(reference_ops(), x, y).item<double>(), 1e-5);
  loss.backward();
  EXPECT_TRUE(parameter(padded, "wte.weight").grad().narrow(0, 50257, 47).eq(0).all().item<bool>());
}

// Several chunks give what one gives. A head of 2^21 rows makes a chunk of 16 rows of them.
TEST(Fused, ChunksOfTheLossAddUp) {
  const int64_t V = int64_t{1} << 21, N = 37;
  at::manual_seed(11);
  const Tensor x = at::randn({1, N, 3}), wte = at::randn({V, 3});
  const Tensor targets = at::arange(N).mul(56537).view({1, N});
  const auto gradients = [&](const Ops& ops) {
    const Tensor a = x.clone().requires_grad_(true), b = wte.clone().requires_grad_(true);
    const Tensor loss = ops.head_loss(ops, a, b, targets, V);
    loss.backward();
    return std::vector<Tensor>{loss.detach(), a.grad(), b.grad()};
  };
  const auto expected = gradients(reference_ops()), seen = gradients(ops_for(fused));
  for (size_t i = 0; i < 3; ++i) EXPECT_LT(relative_error(seen[i], expected[i]), 1e-5) << i;
}

TEST(Fused, ASecondBackwardPassOfTheLossIsAnErrorAndNotAWrongGradient) {
  const Tensor x = at::randn({1, 5, 8}).requires_grad_(true), wte = at::randn({20, 8}).requires_grad_(true);
  const Ops ops = ops_for(fused);
  const Tensor loss = ops.head_loss(ops, x, wte, at::zeros({1, 5}, at::kLong), 20) * 3;
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THROW(loss.backward(), std::exception);
}

TEST(Fused, A16BitStreamWithAFloat32BranchIsRefused) {
  const Ops ops = ops_for(fused);
  const Tensor x = at::ones({1, 2, 8}, at::kBFloat16), y = at::ones({1, 2, 8});
  const Affine norm{at::ones({8}), at::zeros({8})};
  EXPECT_THROW((void)ops.add_norm(ops, {0, "ln_2", 0}, x, y, norm, 1e-5), c10::Error);
}

TEST(Fused, WhatIsNoNumberStaysNone) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Ops ops = ops_for(fused);
  const at::NoGradGuard no_grad;
  Tensor x = at::randn({1, 3, 19});
  x[0][1][18] = nan;
  const auto rows_with_nan = [](const Tensor& t) { return t.isnan().any(-1).flatten().to(at::kLong); };
  const Tensor expected = at::tensor({0, 1, 0});
  const Affine norm{at::ones({19}), at::zeros({19})};
  EXPECT_TRUE(at::equal(rows_with_nan(ops.add_norm(ops, {0, "ln"}, x, x, norm, 1e-5).normalized), expected));
  const Affine fc{at::randn({76, 19}), at::zeros({76})}, proj{at::randn({19, 76}), at::zeros({19})};
  EXPECT_TRUE(at::equal(rows_with_nan(ops.mlp(ops, 0, x, fc, proj)), expected));
  const Tensor targets = at::zeros({1, 3}, at::kLong);
  EXPECT_TRUE(std::isnan(ops.head_loss(ops, x, at::randn({11, 19}), targets, 11).item<double>()));
  // Nor is the loss of a target that is no word.
  const Tensor finite = at::randn({1, 3, 19}), wte = at::randn({11, 19});
  EXPECT_FALSE(std::isnan(ops.head_loss(ops, finite, wte, targets, 11).item<double>()));
  for (const int64_t none : {-1, 11, 50257}) {
    const Tensor outside = at::tensor(std::vector<int64_t>{0, none, 0}).view({1, 3});
    EXPECT_TRUE(std::isnan(ops.head_loss(ops, finite, wte, outside, 11).item<double>())) << none;
  }
}

TEST(Fused, HugeNumbersOverflowNowhere) {
  const Ops ops = ops_for(fused);
  const at::NoGradGuard no_grad;
  const Tensor x = at::tensor({-1e30F, -200.0F, 0.0F, 200.0F, 1e12F}).view({1, 1, 5});
  const Affine fc{at::eye(20, 5), at::zeros({20})}, proj{at::eye(5, 20), at::zeros({5})};
  const Tensor seen = ops.mlp(ops, 0, x, fc, proj);
  EXPECT_TRUE(at::equal(seen, at::relu(x))) << seen;
  const Tensor logits = at::tensor({3e4F, -3e4F, 1.0F}).view({1, 1, 3});
  EXPECT_EQ(ops.head_loss(ops, logits, at::eye(3), at::zeros({1, 1}, at::kLong), 3).item<double>(), 0.0);
}

}  // namespace model_fused_test
