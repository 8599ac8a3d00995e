// The device under test. LADDER_TEST_DEVICE=cpu rehearses: what a CPU can do of these tests runs there, which shows
// that they can pass and, with a planted bug, that they can fail, before a GPU is at hand.
#pragma once

#include "ablations/gpt2/observe.h"
#include "ablations/techniques/operations.h"
#include "ablations/techniques/techniques.h"
#include "harness/machine/machine.h"
#include "model/ops.h"
#include "model/precision.h"
#include "model/trainer.h"
#include "results/observations.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace device_tests {

inline bool rehearsal() {
  const char* device = std::getenv("LADDER_TEST_DEVICE");
  return device != nullptr && std::string_view(device) == "cpu";
}

inline model::Device device() { return rehearsal() ? model::Device::cpu : model::Device::cuda; }

inline at::Device at_device() {
  return {model::device_type(device()), static_cast<c10::DeviceIndex>(rehearsal() ? -1 : 0)};
}

// ||a - b|| / ||b|| in float64 on the CPU.
inline double relative_error(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().to(at::kCPU, at::kDouble), y = b.detach().to(at::kCPU, at::kDouble);
  return ((x - y).norm() / y.norm()).item<double>();
}

// Says how near it came, too: the margins are estimates until a device has shown them.
inline void expect_error(const std::string& what, double error, double allowed) {
  fmt::print("{}: {:.2g} of {:.2g}\n", what, error, allowed);
  EXPECT_LT(error, allowed) << what;
}

struct Operation {
  std::string name;
  std::vector<std::vector<int64_t>> inputs;  // shapes of the float tensors that get gradients
  std::function<std::vector<at::Tensor>(const model::Ops&, const std::vector<at::Tensor>&)> forward;
};

// The worst relative error of the results and of the gradients, as a step calls the operation.
inline double worst_error(const Operation& operation, const model::Recipe& recipe) {
  at::Generator generator = at::detail::createCPUGenerator(17);
  std::vector<at::Tensor> exact, tried;
  for (const auto& shape : operation.inputs) {
    const double std = shape.size() == 2 ? 1 / std::sqrt(static_cast<double>(shape[1])) : 1.0;
    const at::Tensor values = at::empty(shape).normal_(0.0, std, generator);
    exact.push_back(values.to(at::kDouble).requires_grad_(true));
    tried.push_back(values.to(at_device()).requires_grad_(true));
  }
  const std::vector<at::Tensor> expected = operation.forward(model::reference_ops(), exact);
  const model::MatmulPrecisionScope precision(recipe.matmul_precision);
  const model::SdpaScope sdpa(recipe.attention);
  std::vector<at::Tensor> seen;
  {
    const model::AutocastScope autocast(at_device().type(), recipe.autocast);
    seen = operation.forward(model::ops_for(recipe), tried);
  }
  double worst = 0;
  at::Tensor sum_expected = at::zeros({}, at::kDouble), sum_seen = at::zeros({}, at::kDouble).to(at_device());
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, relative_error(seen[i], expected[i]));
    const at::Tensor upstream = at::empty(expected[i].sizes()).normal_(0.0, 1.0, generator).to(at::kDouble);
    sum_expected = sum_expected + (expected[i] * upstream).sum();
    sum_seen = sum_seen + (seen[i].to(at::kDouble) * upstream.to(at_device())).sum();
  }
  sum_expected.backward();
  sum_seen.backward();
  for (size_t i = 0; i < exact.size(); ++i) worst = std::max(worst, relative_error(tried[i].grad(), exact[i].grad()));
  return worst;
}

// Two layers as wide as four heads of 64: the head size of every GPT-2, in a second.
inline model::Config small() {
  return {.name = "small", .n_layer = 2, .n_head = 4, .n_embd = 256, .n_positions = 256, .vocabulary = 50257};
}

// The proofs of these fields, by further steps of a small model's trainer. What they say of calls is worth nothing
// where CUPTI did not count them; the page faults of a step are a run's to count, for a test has other things in
// memory.
inline void expect_proven(model::Trainer& trainer, const model::Recipe& recipe,
                          const std::function<bool(const std::string&)>& field) {
  const ablations::RunFacts facts{.observations = ablations::observe(trainer).observations,
                                  .page_faults_per_step = 0,
                                  .peak_bytes = int64_t{1} << 40,
                                  .attentions = small().n_layer};
  const auto& calls = facts.observations.cuda_calls;
  ASSERT_TRUE(rehearsal() || (calls && !calls->unavailable)) << "the calls were not counted";
  for (const ablations::Proof& proof : ablations::prove(recipe, facts)) {
    if (!field(proof.field)) continue;
    EXPECT_TRUE(proof.passed) << proof.field << ": expected " << proof.expected << "; observed " << proof.observed;
  }
}

inline const model::TokenStream& tokens() {
  static const model::TokenStream stream = [] {
    model::TokenStream tokens;
    for (int i = 0; i < 60000; ++i) tokens.tokens.push_back(static_cast<uint16_t>(i * 7919L % 50257));
    tokens.source = "test";
    return tokens;
  }();
  return stream;
}

inline std::vector<double> losses(const model::Config& config, const model::Recipe& recipe,
                                  const model::TrainerOptions& options) {
  model::Trainer trainer(config, recipe, options, tokens(), model::step_parts());
  for (int64_t step = 0; step < options.max_steps; ++step) trainer.step();
  return trainer.losses();
}

inline void expect_near(const std::vector<double>& losses, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], tolerance) << "step " << i;
}

// An untrained model's loss, and then others: where nothing is computed, all runs are alike, too.
inline void expect_learns(const std::vector<double>& losses) {
  ASSERT_GT(losses.size(), 1U);
  EXPECT_NEAR(losses.front(), std::log(50257.0), 1.0);
  EXPECT_NE(losses.back(), losses.front());
}

// To the bit; names the first step that differs, and by how much.
inline void expect_same(const std::vector<double>& losses, const std::vector<double>& expected) {
  ASSERT_EQ(losses.size(), expected.size());
  const auto [seen, other] = std::ranges::mismatch(losses, expected);
  if (seen == losses.end()) return;
  ADD_FAILURE() << "step " << seen - losses.begin() << " has loss " << *seen << " and not " << *other << ": "
                << *seen - *other << " apart";
}

}  // namespace device_tests
