// The fused operations against the reference's in float64: values and gradients, over sizes that are multiples of
// nothing, in float32 and bfloat16, with the loops of every instruction set that this machine has.
#include "ablations/techniques/cpu/kernels.h"
#include "ablations/techniques/operations.h"
#include "model/gpt2.h"
#include "model/ops.h"
#include "model/precision.h"
#include "model/trainer.h"
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
double worst_error(const Case& one, Autocast autocast, Products products = Products::aten) {
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

TEST(Fused, FollowFloat64InFloat32) {
  for (const Case& one : cases()) {
    EXPECT_LT(worst_error(one, Autocast::off), 2e-6) << one.name << " of " << one.shapes[0];
  }
}

TEST(Fused, FollowFloat64WithPackedProducts) {
  for (const Case& one : cases()) {
    EXPECT_LT(worst_error(one, Autocast::off, Products::packed), 2e-6) << one.name << " of " << one.shapes[0];
  }
}

TEST(Fused, FollowFloat64UnderAutocast) {
  for (const Case& one : cases()) {
    EXPECT_LT(worst_error(one, Autocast::bf16), 2e-2) << one.name << " of " << one.shapes[0];
  }
}

// The loops of each instruction set, called as they are: those that this machine does not take must be right, too.
class FusedLoops : public testing::TestWithParam<std::pair<const char*, const cpu::Kernels*>> {};
TEST_P(FusedLoops, GiveWhatTheReferenceGives) {
  const auto [name, kernels] = GetParam();
  const std::array sets{&cpu::plain_kernels, &cpu::avx2_kernels, &cpu::avx512_kernels};  // each includes those before
  if (std::ranges::find(sets, kernels) > std::ranges::find(sets, &cpu::kernels())) {
    GTEST_SKIP() << "this machine has no " << name;
  }
  at::manual_seed(3);
  const int64_t rows = 5, C = 77;
  const Tensor x = at::randn({rows, C}), y = at::randn({rows, C}), weight = at::randn({C}), bias = at::randn({C});
  Tensor sum = at::empty_like(x), normalized = at::empty_like(x), mean = at::empty({rows}), rstd = at::empty({rows});
  kernels->add_norm({.stream = cpu::Number::f32,
                     .branch = cpu::Number::f32,
                     .out = cpu::Number::f32,
                     .x = x.const_data_ptr(),
                     .y = y.const_data_ptr(),
                     .sum = sum.mutable_data_ptr(),
                     .normalized = normalized.mutable_data_ptr(),
                     .mean = mean.mutable_data_ptr<float>(),
                     .rstd = rstd.mutable_data_ptr<float>(),
                     .weight = weight.const_data_ptr<float>(),
                     .bias = bias.const_data_ptr<float>(),
                     .C = C,
                     .eps = 1e-5F},
                    0, rows);
  EXPECT_TRUE(at::equal(sum, x + y));
  EXPECT_LT(relative_error(normalized, at::layer_norm(x + y, {C}, weight, bias, 1e-5)), 1e-6);

  Tensor gelu = at::empty_like(x);
  kernels->gelu({.type = cpu::Number::f32,
                 .x = x.const_data_ptr(),
                 .bias = bias.const_data_ptr<float>(),
                 .y = gelu.mutable_data_ptr(),
                 .columns = C},
                0, rows);
  EXPECT_LT(relative_error(gelu, at::gelu(x + bias, "tanh")), 1e-6);

  Tensor logits = 5 * x, losses = at::empty({rows});
  const Tensor targets = at::arange(rows) * 9, before = logits.clone().requires_grad_(true);
  kernels->loss({.type = cpu::Number::f32,
                 .logits = logits.mutable_data_ptr(),
                 .targets = targets.const_data_ptr<int64_t>(),
                 .loss = losses.mutable_data_ptr<float>(),
                 .columns = C - 4,
                 .stride = C,
                 .scale = 0.5F,
                 .write_gradient = true},
                0, rows);
  const Tensor expected = at::cross_entropy_loss(before.narrow(1, 0, C - 4), targets, {}, at::Reduction::None);
  (expected.sum() * 0.5).backward();
  EXPECT_LT(relative_error(losses, expected.detach()), 1e-6);
  EXPECT_LT(relative_error(logits, before.grad()), 1e-6);
  EXPECT_TRUE(logits.narrow(1, C - 4, 4).eq(0).all().item<bool>());  // padding

  const int64_t B = 2, T = 67, NH = 2, HS = 19, width = NH * HS;
  const Tensor qkv = at::randn({B, T, 3 * width}), d_out = at::randn({B, T, width});
  Tensor out = at::empty_like(d_out), logsumexp = at::empty({B, NH, T}), d_qkv = at::empty_like(qkv);
  kernels->attention({.type = cpu::Number::f32,
                      .qkv = qkv.const_data_ptr(),
                      .out = out.mutable_data_ptr(),
                      .logsumexp = logsumexp.mutable_data_ptr<float>(),
                      .T = T,
                      .NH = NH,
                      .HS = HS},
                     0, B * NH);
  kernels->attention_backward({.type = cpu::Number::f32,
                               .qkv = qkv.const_data_ptr(),
                               .out = out.const_data_ptr(),
                               .d_out = d_out.const_data_ptr(),
                               .logsumexp = logsumexp.const_data_ptr<float>(),
                               .d_qkv = d_qkv.mutable_data_ptr(),
                               .T = T,
                               .NH = NH,
                               .HS = HS},
                              0, B * NH);
  const Tensor exact = qkv.to(at::kDouble).requires_grad_(true);
  const auto heads = [&](int64_t third) {
    return exact.narrow(2, third * width, width).reshape({B, T, NH, HS}).transpose(1, 2);
  };
  const Tensor attended = reference_ops().attention(heads(0), heads(1), heads(2)).transpose(1, 2).reshape_as(d_out);
  attended.backward(d_out.to(at::kDouble));
  EXPECT_LT(relative_error(out, attended.detach()), 2e-6);
  EXPECT_LT(relative_error(d_qkv, exact.grad()), 2e-6);
}
INSTANTIATE_TEST_SUITE_P(Sets, FusedLoops,
                         testing::Values(std::pair{"plain", &cpu::plain_kernels}, std::pair{"avx2", &cpu::avx2_kernels},
                                         std::pair{"avx512", &cpu::avx512_kernels}),
                         [](const auto& test) { return test.param.first; });

// A step of the whole model: the loss and every gradient.
TEST(Fused, TheModelHasTheReferencesLossAndGradients) {
  const Tensor tokens = at::arange(2 * 33, at::kLong).mul(7919).remainder(50257).view({2, 33});
  const Tensor x = tokens.narrow(1, 0, 32), y = tokens.narrow(1, 1, 32);
  const GPT2 reference(preset("tiny"), 50257, 1, at::kCPU), tried(preset("tiny"), 50257, 1, at::kCPU);
  const Tensor expected = reference.loss(reference_ops(), x, y), seen = tried.loss(ops_for(fused), x, y);
  EXPECT_NEAR(seen.item<double>(), expected.item<double>(), 1e-5);
  (expected * 0.25).backward();
  (seen * 0.25).backward();
  for (const Parameter& p : reference.parameters()) {
    EXPECT_LT(relative_error(parameter(tried, p.name).grad(), p.tensor.grad()), 1e-5) << p.name;
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

TEST(Fused, TrainingGivesTheSameLossesInEveryRun) {
  TokenStream text;
  for (int64_t i = 0; i < 4000; ++i) text.tokens.push_back(static_cast<uint16_t>(i * 7919 % 50257));
  const auto losses = [&](const Recipe& recipe) {
    Trainer trainer(preset("tiny"), recipe, {.B = 2, .T = 32, .accumulation = 2, .max_steps = 6}, text, step_parts());
    for (int i = 0; i < 6; ++i) trainer.step();
    return trainer.losses();
  };
  Recipe plain;
  plain.optimizer = Optimizer::fused;
  Recipe all = fused;
  all.optimizer = Optimizer::fused;
  const std::vector<double> expected = losses(plain), seen = losses(all);
  EXPECT_EQ(seen, losses(all));
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(seen[i], expected[i], 1e-4) << "step " << i;
}

}  // namespace model_fused_test
