// The device under test. LADDER_TEST_DEVICE=cpu rehearses: what a CPU can do of these tests runs there, which shows
// that they can pass and, with a planted bug, that they can fail, before a GPU is at hand.
#pragma once

#include "ablations/techniques/operations.h"
#include "harness/machine/machine.h"
#include "model/precision.h"
#include "model/trainer.h"
#include "results/observations.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace device_tests {

inline bool rehearsal() {
  const char* device = std::getenv("LADDER_TEST_DEVICE");
  return device != nullptr && std::string_view(device) == "cpu";
}

// What a step's proofs say of calls is worth nothing where CUPTI did not count them.
inline bool counted(const results::Observations& observations) {
  return rehearsal() || (observations.cuda_calls && !observations.cuda_calls->unavailable);
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

// Two layers as wide as four heads of 64: the head size of every GPT-2, in a second.
inline model::Config small() {
  return {.name = "small", .n_layer = 2, .n_head = 4, .n_embd = 256, .n_positions = 256, .vocabulary = 50257};
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
