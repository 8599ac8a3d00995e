// Steps of a small GPT-2 by the techniques' operations for a GPU, on a CPU: the kernels' own sources, their threads as
// fibers, and matrix products by ATen (blas_on_cpu.cpp). The loss and every gradient are compared with float64 by norm.
#include "ablations/techniques/cuda/built.h"
#include "ablations/techniques/weights/master_adamw.h"
#include "model/optimizer.h"
#include "tests/ablations/techniques/cuda/cpu_device.h"
#include "tests/ablations/techniques/cuda/small_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace kernels_step_test {

using namespace small_step;

constexpr Sizes wide{.C = 48}, odd{.C = 30};

// Of the head's chunks: 26 rows are 9, 9 and 8.
constexpr int64_t chunk_bytes = int64_t{10} * 107 * 4;

Ops with_cuda(Ops ops) {
  ops.add_norm = fused_add_norm(add_norm_on_cuda, nullptr);
  ops.mlp = fused_mlp(mlp_on_cuda, cuda_products, nullptr);
  ops.head_loss = fused_head_loss(head_loss_on_cuda, cuda_products, chunk_bytes, nullptr);
  return ops;
}

// With master weights. What is in the gradients' buffers before does not matter.
Step step_in_place(const Sizes& sizes, Autocast autocast, Residual residual, int64_t micro_steps) {
  GPT2 gpt2 = model_of(sizes);
  if (autocast == Autocast::bf16) gpt2.split_weights(/*biases=*/true);
  Gradients gradients(gpt2.parameters());
  for (const Parameter& p : gpt2.parameters()) p.tensor.grad().fill_(NAN);
  gradients.begin_step(1.0 / static_cast<double>(micro_steps));
  const Ops ops = with_cuda_into(gradients, {.autocast = autocast, .residual = residual}, chunk_bytes);
  return step(gpt2, ops, sizes, autocast, micro_steps, &gradients);
}

void expect_near(const Step& found, const Step& expected, double most) {
  const auto [error, name] = worst_error(found, expected);
  EXPECT_LT(error, most) << name;
}

// 2^-8 is one rounding to bfloat16. What is wrong, and not rounded, is off by more (below).
constexpr double rounded = 5e-2;

TEST(CudaStep, FollowsFloat64) {
  for (const Sizes& sizes : {wide, odd}) {
    SCOPED_TRACE(sizes.C);
    expect_near(step(with_cuda(reference_ops()), sizes), exact(sizes), 1e-5);
    const Step expected = exact(sizes, 3);  // a third is no number of bfloat16's, and the gradient of the loss is one
    expect_near(step(with_cuda(reference_ops()), sizes, at::kFloat, Autocast::off, 3), expected, 1e-5);
    for (const Residual residual : {Residual::float32, Residual::autocast}) {  // branches or all of 16 bits
      const Ops ops = with_cuda(ops_for({.autocast = Autocast::bf16, .residual = residual}));
      expect_near(step(ops, sizes, at::kFloat, Autocast::bf16, 3), expected, rounded);
    }
  }
}

void expect_the_same_in_each_order(const std::function<Step()>& made) {
  const auto in = [&](cpu_device::Order order) {
    const cpu_device::OrderScope scope(order);
    return made();
  };
  const Step up = in(cpu_device::Order::ascending), down = in(cpu_device::Order::descending);
  for (size_t i = 0; i < up.results.size(); ++i) EXPECT_TRUE(at::equal(up.results[i], down.results[i])) << up.names[i];
}

TEST(CudaStep, IsTheSameInEachOrderOfThreads) {
  for (const Autocast autocast : {Autocast::off, Autocast::bf16}) {
    expect_the_same_in_each_order([&] { return step(with_cuda(reference_ops()), odd, at::kFloat, autocast); });
  }
  expect_the_same_in_each_order([] { return step_in_place(odd, Autocast::bf16, Residual::autocast, 2); });
}

TEST(CudaStep, WithMasterWeightsFollowsFloat64) {
  for (const Sizes& sizes : {wide, odd}) {
    for (const int64_t micro_steps : {1, 3}) {
      SCOPED_TRACE(testing::Message() << sizes.C << ", " << micro_steps << " micro-steps");
      const Step expected = exact(sizes, micro_steps);
      expect_near(step_in_place(sizes, Autocast::off, Residual::float32, micro_steps), expected, 1e-5);
      for (const Residual residual : {Residual::float32, Residual::autocast})
        expect_near(step_in_place(sizes, Autocast::bf16, residual, micro_steps), expected, rounded);
    }
  }
}

// The table of a step on a GPU, which the steps above have made by hand.
TEST(CudaStep, AddNormMakesTheGradientsOfBiasesWhereTheirBuffersStay) {
  const Recipe recipe{.device = Device::cuda, .norm = Norm::fused};
  Gradients gradients(model_of(wide).parameters());
  EXPECT_EQ(ops_for(recipe, &gradients).add_norm_makes_bias_gradient, has_cuda_kernels);
  EXPECT_FALSE(ops_for(recipe).add_norm_makes_bias_gradient);
}

// The update, against that of a CPU: float32 weights and split ones, in steps that clip and steps that do not.
TEST(CudaStep, UpdatesMasterWeightsAsACpuDoes) {
  GPT2 on_cpu = model_of(odd), on_cuda = model_of(odd);
  for (GPT2* gpt2 : {&on_cpu, &on_cuda}) gpt2->split_weights(/*biases=*/true);
  const Gradients of_cpu(on_cpu.parameters()), of_cuda(on_cuda.parameters());
  AdamW reference(on_cpu.parameters(), Optimizer::fused, {}, master_adamw);
  std::vector<MasterWeight> weights;
  for (const auto& [name, tensor, remainder] : on_cuda.parameters()) {
    weights.push_back({.weight = tensor,
                       .remainder = remainder,
                       .gradient = tensor.grad(),
                       .first_moment = at::zeros(tensor.sizes()),
                       .second_moment = at::zeros(tensor.sizes()),
                       .weight_decay = tensor.dim() >= 2 ? AdamWOptions{}.weight_decay : 0.0});
  }
  const auto tried = cuda_master_adamw(weights);
  at::manual_seed(3);
  for (int number = 1; number <= 4; ++number) {
    for (size_t i = 0; i < weights.size(); ++i) {
      const Tensor gradient = at::randn(weights[i].weight.sizes()) * (number % 2 == 0 ? 10.0 : 1e-4);
      weights[i].gradient.copy_(gradient);
      on_cpu.parameters()[i].tensor.grad().copy_(gradient);
    }
    const auto [expected_norm, expected] = reference.clip();
    const auto [norm, found] = tried->clip(AdamWOptions{}.max_norm);
    EXPECT_EQ(expected.item<double>() < 1, number % 2 == 0);
    EXPECT_NEAR(found.item<double>() / expected.item<double>(), 1, 1e-5);
    EXPECT_NEAR(norm.item<double>() / expected_norm.item<double>(), 1, 1e-5);
    EXPECT_EQ(tried->clip(INFINITY).coefficient.item<double>(), 1);
    const double rate = 0.01 * number;
    reference.set_learning_rate(rate);
    reference.step(expected);
    tried->step({rate, number, at::full({}, number, at::kFloat)}, expected);
    for (size_t i = 0; i < weights.size(); ++i) {
      const Parameter &theirs = on_cpu.parameters()[i], &ours = on_cuda.parameters()[i];
      EXPECT_TRUE(at::allclose(whole_weight(ours), whole_weight(theirs), 1e-5, 1e-6)) << ours.name << ", " << number;
    }
  }
}

TEST(CudaStep, WhatIsWrongIsOffByMore) {
  const Ops right = with_cuda(reference_ops());
  Ops cut = right, counted = right, more = right;
  cut.add_norm = [&](const Ops& ops, const Ops::Place& place, const Tensor& x, const Tensor& y, const Affine& norm,
                     double eps) { return right.add_norm(ops, place, y.defined() ? x.detach() : x, y, norm, eps); };
  counted.head_loss = [&](const Ops& ops, const Tensor& x, const Tensor& wte, const Tensor& targets, int64_t) {
    return right.head_loss(ops, x, wte, targets, wte.size(0));
  };
  more.mlp = [&](const Ops& ops, int64_t layer, const Tensor& x, const Affine& c_fc, const Affine& c_proj) {
    return 1.1 * right.mlp(ops, layer, x, c_fc, c_proj);
  };
  const Step expected = exact(wide);
  EXPECT_GT(worst_error(step(cut, wide), expected).first, 2 * rounded) << "the gradient down the stream is left out";
  EXPECT_GT(worst_error(step(counted, wide), expected).first, 1e-3) << "padding rows count as words";
  EXPECT_GT(worst_error(step(more, wide), expected).first, 1.5 * rounded) << "a tenth too much";
}

TEST(CudaStep, TypesThatTheKernelsDoNotKnowAreRefused) {
  const Ops ops = with_cuda(reference_ops());
  const Affine norm{at::ones({8}), at::zeros({8})};
  const auto add = [&](at::ScalarType stream, at::ScalarType branch) {
    (void)ops.add_norm(ops, {0, "ln_2", 0}, at::ones({1, 2, 8}, stream), at::ones({1, 2, 8}, branch), norm, 1e-5);
  };
  add(at::kFloat, at::kFloat);
  EXPECT_THROW(add(at::kBFloat16, at::kFloat), c10::Error);
  EXPECT_THROW(add(at::kHalf, at::kHalf), c10::Error);
}

}  // namespace kernels_step_test
