// The same model on the same tokens, on the CPU and on the GPU.
#include "model/trainer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace {

using namespace model;

std::vector<double> losses(Device device) {
  TokenStream stream;
  for (int i = 0; i < 1000; ++i) stream.tokens.push_back(static_cast<uint16_t>(i * i % 97 * 500));
  Trainer trainer(preset("tiny"), {.device = device}, {.B = 2, .T = 32, .max_steps = 3}, stream);
  for (int step = 0; step < 3; ++step) trainer.step();
  return trainer.losses();
}

TEST(Device, LearnsWhatTheCpuLearns) {
  const auto expected = losses(Device::cpu);
  const auto seen = losses(Device::cuda);
  ASSERT_EQ(seen.size(), expected.size());
  EXPECT_NEAR(expected.front(), std::log(50257.0), 0.1);
  // float32 on both: sums in another order, some 1e-6 apart.
  for (size_t step = 0; step < seen.size(); ++step) EXPECT_NEAR(seen[step], expected[step], 1e-3) << "step " << step;
}

}  // namespace
