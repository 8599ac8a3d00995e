// The same weights and tokens on the CPU and on the GPU: the loss and every parameter's gradient, in float64 and
// float32.
#include "model/gpt2.h"
#include "tests/cuda/device.h"

#include <gtest/gtest.h>

#include <map>

namespace cuda_parity_test {

using namespace device_tests;
using namespace model;
using at::Tensor;

struct Pass {
  Tensor loss;
  std::map<std::string, Tensor> gradients;
};

Pass pass(const Config& config, at::Device device, at::ScalarType type, int64_t B, int64_t T) {
  GPT2 gpt2(config, config.vocabulary, /*seed=*/5, device);
  for (const Parameter& parameter : gpt2.parameters()) parameter.tensor.set_data(parameter.tensor.to(type));
  BatchLoader loader(tokens(), B, T, /*seed=*/3);
  const auto [inputs, targets] = loader.next();
  const MatmulPrecisionScope precision(MatmulPrecision::highest);
  Pass result{.loss = gpt2.loss(reference_ops(), inputs.to(device), targets.to(device)), .gradients = {}};
  result.loss.backward();
  for (const Parameter& parameter : gpt2.parameters()) result.gradients[parameter.name] = parameter.tensor.grad();
  return result;
}

void compare(const Config& config, at::ScalarType type, int64_t B, int64_t T, double loss_error,
             double gradient_error) {
  const Pass expected = pass(config, at::kCPU, type, B, T);
  const Pass seen = pass(config, at_device(), type, B, T);
  EXPECT_EQ(seen.loss.device(), at_device());
  EXPECT_LE(relative_error(seen.loss, expected.loss), loss_error);
  ASSERT_EQ(seen.gradients.size(), expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    EXPECT_LE(relative_error(seen.gradients.at(name), gradient), gradient_error) << name;
  }
}

TEST(Parity, SmallInFloat64) { compare(small(), at::kDouble, 2, 128, 1e-13, 1e-11); }

TEST(Parity, SmallInFloat32) { compare(small(), at::kFloat, 2, 128, 1e-6, 1e-4); }

TEST(Parity, Gpt2InFloat32) { compare(preset("gpt2-124m"), at::kFloat, 1, 64, 1e-6, 1e-4); }

}  // namespace cuda_parity_test
