// Steps of a small GPT-2 by the techniques' operations for a GPU, on a CPU: the kernels' own sources, their threads as
// fibers, and matrix products by ATen (blas_on_cpu.cpp). The loss and every gradient are compared with float64 by norm.
#include "ablations/techniques/cross_entropy/head_loss.h"
#include "ablations/techniques/cuda/built.h"
#include "ablations/techniques/mlp/mlp.h"
#include "ablations/techniques/norm/norm.h"
#include "ablations/techniques/operations.h"
#include "ablations/techniques/products/strips.h"
#include "ablations/techniques/weights/embedding_gradient.h"
#include "ablations/techniques/weights/master_adamw.h"
#include "model/gpt2.h"
#include "model/gradients.h"
#include "model/ops.h"
#include "model/optimizer.h"
#include "model/precision.h"
#include "tests/ablations/techniques/cuda/cpu_device.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <string>
#include <vector>

namespace kernels_step_test {

using at::Tensor;
using namespace model;

// Multiples of nothing where the kernels allow it: V and T; C is one of 16 bytes, or not.
struct Sizes {
  int64_t C, V = 101, rows = 107, B = 2, T = 13;
};
constexpr Sizes wide{.C = 48}, odd{.C = 30};

// Of the head's chunks: 26 rows are 9, 9 and 8.
constexpr int64_t chunk_bytes = int64_t{10} * 107 * 4;

Ops with_cuda(Ops ops) {
  ops.add_norm = fused_add_norm(add_norm_on_cuda, nullptr);
  ops.mlp = fused_mlp(mlp_on_cuda, cuda_products, nullptr);
  ops.head_loss = fused_head_loss(head_loss_on_cuda, cuda_products, chunk_bytes, nullptr);
  return ops;
}

// As steps with master weights have them.
Ops with_cuda_into(Gradients& gradients, const Recipe& recipe) {
  Ops ops = ops_for(recipe);
  const bool low = recipe.residual == Residual::autocast;
  ops.embed = embed_into(gradients, cuda_embedding_gradient, cuda_embedding(low ? at::kBFloat16 : at::kFloat));
  ops.linear = own_linear(cuda_products, &gradients);
  ops.qkv = qkv_in_one_product(ops.linear);
  ops.add_norm = fused_add_norm(add_norm_on_cuda, &gradients);
  ops.add_norm_makes_bias_gradient = true;
  ops.mlp = fused_mlp(mlp_on_cuda, cuda_products, &gradients);
  ops.head_loss = fused_head_loss(head_loss_on_cuda, cuda_products, chunk_bytes, &gradients);
  return ops;
}

// The reference, which the padding rows of the embedding would be words for.
Ops without_padding(Ops ops, int64_t vocabulary) {
  ops.head = [head = ops.head, vocabulary](const Tensor& x, const Tensor& wte) {
    return head(x, wte.narrow(0, 0, vocabulary));
  };
  return ops;
}

struct Step {
  std::vector<std::string> names;
  std::vector<Tensor> results;  // of each micro-step the loss, then the gradients
};

GPT2 model_of(const Sizes& sizes) {
  return {{.name = "test", .n_layer = 2, .n_head = 2, .n_embd = sizes.C, .n_positions = 16, .vocabulary = sizes.V},
          sizes.rows,
          7,
          at::kCPU};
}

Step step(const GPT2& gpt2, const Ops& ops, const Sizes& sizes, Autocast autocast, int64_t micro_steps,
          Gradients* gradients = nullptr) {
  const auto [C, V, rows, B, T] = sizes;
  Step result;
  for (int64_t i = 0; i < micro_steps; ++i) {
    const Tensor tokens = (at::arange(B * (T + 1), at::kLong) * 7919 + 31 * i).remainder(V).view({B, T + 1});
    Tensor loss;
    {
      const AutocastScope scope(at::kCPU, autocast);
      loss = gpt2.loss(ops, tokens.narrow(1, 0, T), tokens.narrow(1, 1, T));
    }
    result.names.push_back("loss");
    result.results.push_back(loss.detach());
    (loss * (1.0 / static_cast<double>(micro_steps))).backward();
    if (gradients != nullptr) add_up_left(*gradients);
  }
  for (const Parameter& p : gpt2.parameters()) {
    result.names.push_back(p.name);
    result.results.push_back(p.tensor.grad());
  }
  return result;
}

Step step(const Ops& ops, const Sizes& sizes, at::ScalarType weights = at::kFloat, Autocast autocast = Autocast::off,
          int64_t micro_steps = 1) {
  const GPT2 gpt2 = model_of(sizes);
  for (const Parameter& p : gpt2.parameters()) p.tensor.set_data(p.tensor.to(weights));
  return step(gpt2, ops, sizes, autocast, micro_steps);
}

// With master weights. What is in the gradients' buffers before does not matter.
Step step_in_place(const Sizes& sizes, Autocast autocast, Residual residual, int64_t micro_steps) {
  GPT2 gpt2 = model_of(sizes);
  if (autocast == Autocast::bf16) gpt2.split_weights(/*biases=*/true);
  Gradients gradients(gpt2.parameters());
  for (const Parameter& p : gpt2.parameters()) p.tensor.grad().fill_(NAN);
  gradients.begin_step(1.0 / static_cast<double>(micro_steps));
  const Ops ops = with_cuda_into(gradients, {.autocast = autocast, .residual = residual});
  return step(gpt2, ops, sizes, autocast, micro_steps, &gradients);
}

Step exact(const Sizes& sizes, int64_t micro_steps = 1) {
  return step(without_padding(reference_ops(), sizes.V), sizes, at::kDouble, Autocast::off, micro_steps);
}

// The worst of all results, by norm, and which it is.
std::pair<double, std::string> worst_error(const Step& found, const Step& expected) {
  std::pair<double, std::string> worst{0, "none"};
  for (size_t i = 0; i < expected.results.size(); ++i) {
    const Tensor difference = found.results[i].to(at::kDouble) - expected.results[i];
    const double error = difference.norm().item<double>() / expected.results[i].norm().item<double>();
    if (!(error <= worst.first)) worst = {error, expected.names[i]};  // NaN is the worst of all
  }
  return worst;
}

void expect_near(const Step& found, const Step& expected, double most) {
  const auto [error, name] = worst_error(found, expected);
  EXPECT_LT(error, most) << name;
}

TEST(CudaStep, FollowsFloat64InFloat32) {
  for (const Sizes& sizes : {wide, odd}) {
    SCOPED_TRACE(sizes.C);
    expect_near(step(with_cuda(reference_ops()), sizes), exact(sizes), 1e-5);
  }
}

// A third is no number of bfloat16's, and the gradient of the loss is one.
TEST(CudaStep, MicroStepsAddUp) {
  expect_near(step(with_cuda(reference_ops()), wide, at::kFloat, Autocast::off, 3), exact(wide, 3), 1e-5);
}

TEST(CudaStep, IsTheSameInEachOrderOfThreads) {
  for (const Autocast autocast : {Autocast::off, Autocast::bf16}) {
    const auto in = [&](cpu_device::Order order) {
      const cpu_device::OrderScope scope(order);
      return step(with_cuda(reference_ops()), odd, at::kFloat, autocast);
    };
    const Step up = in(cpu_device::Order::ascending), down = in(cpu_device::Order::descending);
    for (size_t i = 0; i < up.results.size(); ++i)
      EXPECT_TRUE(at::equal(up.results[i], down.results[i])) << up.names[i];
  }
}

// 2^-8 is one rounding to bfloat16. What is wrong, and not rounded, is off by more (below).
constexpr double rounded = 5e-2;

Step under_autocast(const Sizes& sizes, Residual residual) {
  const Recipe recipe{.autocast = Autocast::bf16, .residual = residual};
  return step(with_cuda(ops_for(recipe)), sizes, at::kFloat, Autocast::bf16, 3);
}

TEST(CudaStep, FollowsFloat64WithAStreamOf16Bits) {
  for (const Sizes& sizes : {wide, odd}) {
    SCOPED_TRACE(sizes.C);
    expect_near(under_autocast(sizes, Residual::autocast), exact(sizes, 3), rounded);
  }
}

TEST(CudaStep, FollowsFloat64WithBranchesOf16Bits) {
  for (const Sizes& sizes : {wide, odd}) {
    SCOPED_TRACE(sizes.C);
    expect_near(under_autocast(sizes, Residual::float32), exact(sizes, 3), rounded);
  }
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

TEST(CudaStep, WithMasterWeightsIsTheSameInEachOrderOfThreads) {
  const auto in = [&](cpu_device::Order order) {
    const cpu_device::OrderScope scope(order);
    return step_in_place(odd, Autocast::bf16, Residual::autocast, 2);
  };
  const Step up = in(cpu_device::Order::ascending), down = in(cpu_device::Order::descending);
  for (size_t i = 0; i < up.results.size(); ++i) EXPECT_TRUE(at::equal(up.results[i], down.results[i])) << up.names[i];
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

// By what the techniques prove that an operation was fused.
TEST(CudaStep, HasTheNodesOfFusedOperations) {
  const GPT2 gpt2(preset("tiny"), 50257, 1, at::kCPU);
  const Tensor tokens = at::arange(6, at::kLong).view({1, 6});
  std::vector<std::string> names;
  const Tensor loss = gpt2.loss(with_cuda(reference_ops()), tokens, tokens);
  std::vector<torch::autograd::Node*> open{loss.grad_fn().get()}, seen;
  while (!open.empty()) {
    torch::autograd::Node* node = open.back();
    open.pop_back();
    if (node == nullptr || std::ranges::find(seen, node) != seen.end()) continue;
    seen.push_back(node);
    names.push_back(node->name());
    for (const torch::autograd::Edge& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  const auto count = [&](const char* type) {
    return std::ranges::count_if(names, [&](const std::string& name) { return name.find(type) != std::string::npos; });
  };
  EXPECT_EQ(count("FusedAddNorm"), 2 * 2 + 1);
  EXPECT_EQ(count("FusedMlp"), 2);
  EXPECT_EQ(count("FusedHeadLoss"), 1);
  EXPECT_EQ(count("LayerNorm"), 0);
  EXPECT_EQ(count("Gelu"), 0);
}

TEST(CudaStep, ASecondBackwardPassOfTheLossIsAnErrorAndNotAWrongGradient) {
  const Tensor x = at::randn({1, 5, 8}).requires_grad_(true), wte = at::randn({20, 8}).requires_grad_(true);
  const Ops ops = with_cuda(reference_ops());
  const Tensor loss = ops.head_loss(ops, x, wte, at::zeros({1, 5}, at::kLong), 20) * 3;
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THROW(loss.backward(), std::exception);
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
